/** Somebody who asks for an address again and again, over a connection that is kept open. */
export function startVisitor(url: string) {
  const seen: string[] = []
  let requests = 0
  let failed = 0
  let going = true

  const visiting = (async () => {
    while (going) {
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
      going = false
      await visiting
      return { requests, failed, seen }
    },
  }
}
