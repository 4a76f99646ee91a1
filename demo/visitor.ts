/** Starts a client that sends one request after the other to an address over a kept connection. */
export function startVisitor(url: string) {
  const seen: string[] = []
  let requests = 0
  let failed = 0
  let stopped = false

  const visiting = (async () => {
    while (!stopped) {
      requests += 1
      try {
        const response = await fetch(url)
        const text = await response.text()
        if (!response.ok) failed += 1
        else if (seen.at(-1) !== text) seen.push(text)
      } catch {
        failed += 1
      }
    }
  })()

  return {
    async stop(): Promise<{ requests: number; failed: number; seen: readonly string[] }> {
      stopped = true
      await visiting
      return { requests, failed, seen }
    },
  }
}
