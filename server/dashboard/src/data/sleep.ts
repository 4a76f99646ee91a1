/** Resolves after `ms` milliseconds. `sleep(0)` lets the browser handle events and paint in between. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
