import { setTimeout as sleep } from 'node:timers/promises'

/** Milliseconds of silence before the first sign of life, and before each further sign of life. */
const defaultPauses = { first: 15_000, next: 30_000 }

export const isSignOfLife = (line: string): boolean => /^Still .* \(\d+ s\)\.$/.test(line)

/**
 * Prints signs of life while a long step prints nothing.
 *
 * @param step.what follows the word "Still"
 * @param step.say writes one line
 * @param step.printed returns a value that changes when the step prints; absent for a step that prints nothing
 */
export async function sayAlive<T>(
  step: {
    readonly what: string
    readonly say: (line: string) => unknown
    readonly printed?: () => Promise<unknown>
  },
  work: () => Promise<T>,
  pauses = defaultPauses,
): Promise<T> {
  const { what, say, printed = async () => undefined } = step
  const begun = performance.now()
  const ended = new AbortController()
  const watch = async () => {
    let pause = pauses.first
    let [before, silentSince] = [await printed(), begun]
    for (;;) {
      await sleep(pauses.first / 15, undefined, { signal: ended.signal })
      const [seen, now] = [await printed(), performance.now()]
      if (seen !== before) pause = pauses.first
      else if (now - silentSince < pause) continue
      else {
        await say(`Still ${what} (${Math.round((now - begun) / 1000)} s).`)
        pause = pauses.next
      }
      ;[before, silentSince] = [await printed(), now]
    }
  }
  // A failing sign of life does not fail the step.
  const watching = watch().catch(() => undefined)
  try {
    return await work()
  } finally {
    ended.abort()
    await watching
  }
}
