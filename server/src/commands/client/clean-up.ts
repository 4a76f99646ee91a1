const signals = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

const pending = new Set<() => Promise<unknown>>()
let exiting: Promise<never> | undefined

/** Runs `work` and then `cleanUp`, which also runs when a signal ends the command. */
export async function withCleanUp<T>(cleanUp: () => Promise<unknown>, work: () => Promise<T>): Promise<T> {
  const names = Object.keys(signals) as (keyof typeof signals)[]
  if (pending.size === 0) for (const signal of names) process.on(signal, stop)
  pending.add(cleanUp)
  try {
    return await work()
  } finally {
    pending.delete(cleanUp)
    if (pending.size === 0) for (const signal of names) process.off(signal, stop)
    await cleanUp()
  }
}

export function exit(status?: number): Promise<never> {
  exiting ??= Promise.allSettled([...pending].map((cleanUp) => cleanUp())).then(() => process.exit(status))
  return exiting
}

function stop(signal: NodeJS.Signals): void {
  // A command with its own signal handler ends its work, which runs the clean-up.
  if (process.listenerCount(signal) > 1) return
  void exit(128 + signals[signal as keyof typeof signals])
}
