/** A limited number of slots, and a queue of those that wait for one. */
export interface Slots<Waiter> {
  /** Takes a slot and returns true. When none is free it queues the waiter, unless it is queued already. */
  take(waiter: Waiter): boolean
  release(): void
  /** Removes the first waiter from the queue and returns it, when a slot is free. */
  next(): Waiter | undefined
}

export function createSlots<Waiter>(count: number): Slots<Waiter> {
  const queue = new Set<Waiter>()
  let free = count
  return {
    take(waiter) {
      if (free === 0) {
        queue.add(waiter)
        return false
      }
      free--
      return true
    },
    release() {
      free++
    },
    next() {
      const [first] = free === 0 ? [] : queue
      if (first !== undefined) queue.delete(first)
      return first
    },
  }
}
