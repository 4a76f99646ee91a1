/** Waiting things of several owners, taken in turns: each owner's in their order, the owners one after the other. */
export interface FairQueue<T> {
  push(owner: string, item: T): void
  /** The next one; `undefined` when nothing waits. */
  shift(): T | undefined
  remove(owner: string, item: T): void
}

export function createFairQueue<T>(): FairQueue<T> {
  // A map keeps the order of insertion: who had a turn and still waits goes to the end.
  const waiting = new Map<string, T[]>()

  const put = (owner: string, items: T[]): void => {
    waiting.delete(owner)
    if (items.length > 0) waiting.set(owner, items)
  }

  return {
    push(owner, item) {
      const items = waiting.get(owner)
      if (items === undefined) waiting.set(owner, [item])
      else items.push(item)
    },
    shift() {
      const [first] = waiting
      if (first === undefined) return undefined
      const [owner, [item, ...rest]] = first
      put(owner, rest)
      return item
    },
    remove(owner, item) {
      const items = waiting.get(owner) ?? []
      const at = items.indexOf(item)
      if (at < 0) return
      items.splice(at, 1)
      if (items.length === 0) waiting.delete(owner)
    },
  }
}
