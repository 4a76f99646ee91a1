import { createFairQueue } from './fair-queue.ts'

/**
 * The places for builds. Builds are heavy: only so many run at a time, while fetching, starting and waiting for health
 * go on beside them. Accounts get places in turns, however many deployments each has waiting.
 */
export interface BuildSlots {
  /** Runs `work` in a place. Rejects with the signal's reason when that aborts while waiting. */
  use<T>(account: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>
}

export function createBuildSlots(places: number): BuildSlots {
  const queue = createFairQueue<() => void>()
  let free = places

  const enter = (account: string, signal: AbortSignal): Promise<void> =>
    new Promise((entered, fail) => {
      signal.throwIfAborted()
      const begin = () => {
        signal.removeEventListener('abort', leave)
        entered()
      }
      const leave = () => {
        queue.remove(account, begin)
        fail(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      queue.push(account, begin)
      next()
    })

  const next = (): void => {
    if (free === 0) return
    const begin = queue.shift()
    if (begin === undefined) return
    free -= 1
    begin()
  }

  return {
    async use(account, signal, work) {
      await enter(account, signal)
      try {
        return await work()
      } finally {
        free += 1
        next()
      }
    },
  }
}
