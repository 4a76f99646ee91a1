/**
 * Lets work on one key run one after the other, in the order of asking; different keys do not wait for each other.
 * With a signal the waiting ends when that aborts; work that has begun ends by itself.
 */
export type KeyedLock = <T>(key: string, work: () => Promise<T>, signal?: AbortSignal) => Promise<T>

export function createKeyedLock(): KeyedLock {
  const tails = new Map<string, Promise<unknown>>()
  const inTurn = async <T>(key: string, work: () => Promise<T>): Promise<T> => {
    const before = tails.get(key) ?? Promise.resolve()
    const mine = before.then(work, work)
    // The tail never rejects: who comes next waits for the end, whatever it was.
    const tail = mine.catch(() => undefined)
    tails.set(key, tail)
    try {
      return await mine
    } finally {
      if (tails.get(key) === tail) tails.delete(key)
    }
  }
  return (key, work, signal) => {
    if (signal === undefined) return inTurn(key, work)
    let begun = false
    const done = inTurn(key, async () => {
      begun = true
      signal.throwIfAborted()
      return work()
    })
    const tired = new Promise<never>((_, fail) => {
      const leave = () => {
        if (!begun) fail(signal.reason)
      }
      if (signal.aborted) leave()
      else signal.addEventListener('abort', leave, { once: true })
    })
    return Promise.race([done, tired])
  }
}
