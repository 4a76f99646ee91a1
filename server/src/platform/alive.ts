import { setTimeout as sleep } from 'node:timers/promises'

/** The time without a word after which a step says that it goes on, and the time until it says so again, in milliseconds. */
const defaultPauses = { first: 15_000, next: 30_000 }

/** True for a line by which a step says that it goes on. */
export const isSignOfLife = (line: string): boolean => /^Still .* \(\d+ s\)\.$/.test(line)

/**
 * Runs a long step, and says that it still goes on while it prints nothing itself.
 *
 * @param step.what names it, after the word "still"
 * @param step.say writes one line
 * @param step.printed returns something that changes when the step prints; for one that may
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
  // A step does not depend on its signs of life.
  const watching = watch().catch(() => undefined)
  try {
    return await work()
  } finally {
    ended.abort()
    await watching
  }
}
