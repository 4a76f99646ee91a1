/** A queue of items that belong to owners. Each owner's items keep their order; the owners take turns. */
export interface FairQueue<Owner, Item> {
  push(owner: Owner, item: Item): void
  /** Removes and returns the next item; `undefined` when the queue is empty. */
  shift(): Item | undefined
  /** Removes an item that is still queued; does nothing when it is not. */
  remove(owner: Owner, item: Item): void
  /** Returns all items in the order in which they would be shifted. */
  order(): Item[]
}

export function createFairQueue<Owner, Item>(): FairQueue<Owner, Item> {
  // A map keeps insertion order: an owner that had its turn and still has items is put back at the end.
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
