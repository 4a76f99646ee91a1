/**
 * A fixed number of slots, shared fairly by owners (accounts, webhooks, keys): requests of an owner are served in
 * order, and owners take turns, regardless of how many requests each has queued.
 */
export interface Slots<Owner> {
  /**
   * Runs `work` in a slot, waiting for one if necessary. Rejects with the signal's reason when it aborts first.
   *
   * @param onWait called with the number of requests that have to end before `work` begins, at the start of the wait
   * and at each change; it must not throw
   */
  use<T>(
    owner: Owner,
    signal: AbortSignal | undefined,
    work: () => Promise<T>,
    onWait?: (before: number) => void,
  ): Promise<T>
  /**
   * Takes a slot when one is free, for callers that cannot await a slot; `release` gives it back. Otherwise returns
   * `false` and queues the owner, once. When a slot has become free, `retry` is called, and may take it.
   */
  take(owner: Owner, retry: () => void): boolean
  release(): void
}

export function createSlots<Owner = string>(count: number): Slots<Owner> {
  const queue = createFairQueue<Owner, () => void>()
  const queuedByTake = new Set<Owner>()
  const waiting = createWaiting(queue.order)
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
    waiting.tell()
  }

  const enter = (
    owner: Owner,
    signal: AbortSignal | undefined,
    onWait: ((before: number) => void) | undefined,
  ): Promise<void> =>
    new Promise((entered, fail) => {
      signal?.throwIfAborted()
      const abort = () => {
        queue.remove(owner, begin)
        waiting.remove(begin)
        waiting.tell()
        fail(signal?.reason)
      }
      const begin = () => {
        signal?.removeEventListener('abort', abort)
        waiting.remove(begin)
        free -= 1
        entered()
      }
      signal?.addEventListener('abort', abort, { once: true })
      queue.push(owner, begin)
      if (onWait !== undefined) waiting.add(begin, onWait)
      serve()
      waiting.tell()
    })

  return {
    async use(owner, signal, work, onWait) {
      await enter(owner, signal, onWait)
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

/** Tells waiting items how many come before them. */
function createWaiting<Item>(order: () => readonly Item[]) {
  const waiting = new Map<Item, { readonly onWait: (before: number) => void; told?: number }>()
  return {
    add: (item: Item, onWait: (before: number) => void): void => void waiting.set(item, { onWait }),
    remove: (item: Item): void => void waiting.delete(item),
    /** Tells each item whose number has changed. The first item begins as soon as any holder of a slot ends. */
    tell(): void {
      if (waiting.size === 0) return
      for (const [ahead, item] of order().entries()) {
        const each = waiting.get(item)
        if (each === undefined || each.told === ahead + 1) continue
        each.told = ahead + 1
        each.onWait(ahead + 1)
      }
    },
  }
}

/** A queue of items that belong to owners. Each owner's items keep their order; the owners take turns. */
export interface FairQueue<Owner, Item> {
  push(owner: Owner, item: Item): void
  shift(): Item | undefined
  remove(owner: Owner, item: Item): void
  /** Returns all items in the order in which they would be shifted. */
  order(): Item[]
}

export function createFairQueue<Owner, Item>(): FairQueue<Owner, Item> {
  // A map keeps insertion order: an owner that had its turn and has more items goes to the end.
  const queued = new Map<Owner, Item[]>()

  return {
    push(owner, item) {
      const items = queued.get(owner)
      if (items === undefined) queued.set(owner, [item])
      else items.push(item)
    },
    shift() {
      const [first] = queued
      if (first === undefined) return undefined
      const [owner, [item, ...rest]] = first
      queued.delete(owner)
      if (rest.length > 0) queued.set(owner, rest)
      return item
    },
    remove(owner, item) {
      const items = queued.get(owner) ?? []
      const at = items.indexOf(item)
      if (at < 0) return
      items.splice(at, 1)
      if (items.length === 0) queued.delete(owner)
    },
    order() {
      const lists = [...queued.values()]
      const rounds = Math.max(0, ...lists.map(({ length }) => length))
      return Array.from({ length: rounds }, (_, round) =>
        lists.flatMap((items) => items.slice(round, round + 1)),
      ).flat()
    },
  }
}
