import { createFairQueue } from './slots/fair-queue.ts'

/**
 * A fixed number of slots, shared fairly by owners (accounts, webhooks, keys): each owner's requests are served in
 * order, and the owners that wait take turns, however many requests each of them has queued.
 */
export interface Slots<Owner> {
  /** Runs `work` in a slot, waiting for one if necessary. Rejects with the signal's reason when it aborts first. */
  use<T>(owner: Owner, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T>
  /**
   * Takes a slot when one is free, for callers that cannot await one; `release` gives it back. Otherwise returns `false`
   * and queues the owner, once: `retry` is called when a slot has become free, and may take it or leave it.
   */
  take(owner: Owner, retry: () => void): boolean
  release(): void
}

export function createSlots<Owner = string>(count: number): Slots<Owner> {
  const queue = createFairQueue<Owner, () => void>()
  const queuedByTake = new Set<Owner>()
  let free = count

  const serve = (): void => {
    while (free > 0) {
      const next = queue.shift()
      if (next === undefined) return
      next()
    }
  }

  const release = (): void => {
    free += 1
    serve()
  }

  const enter = (owner: Owner, signal: AbortSignal | undefined): Promise<void> =>
    new Promise((entered, fail) => {
      signal?.throwIfAborted()
      const abort = () => {
        queue.remove(owner, begin)
        fail(signal?.reason)
      }
      const begin = () => {
        signal?.removeEventListener('abort', abort)
        free -= 1
        entered()
      }
      signal?.addEventListener('abort', abort, { once: true })
      queue.push(owner, begin)
      serve()
    })

  return {
    async use(owner, signal, work) {
      await enter(owner, signal)
      try {
        return await work()
      } finally {
        release()
      }
    },
    take(owner, retry) {
      if (free > 0) {
        free -= 1
        return true
      }
      if (queuedByTake.has(owner)) return false
      queuedByTake.add(owner)
      queue.push(owner, () => {
        queuedByTake.delete(owner)
        retry()
      })
      return false
    },
    release,
  }
}
