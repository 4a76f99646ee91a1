import { createSlots, type Slots } from './slots.ts'

/**
 * Runs the work on one key one at a time, in the order of the calls; different keys do not wait for each other.
 * Rejects with the signal's reason when that aborts before the work has begun; work that has begun runs to its end.
 */
export type KeyedLock = <T>(key: string, work: () => Promise<T>, signal?: AbortSignal) => Promise<T>

export function createKeyedLock(): KeyedLock {
  const locks = new Map<string, { readonly slot: Slots<string>; callers: number }>()
  return async (key, work, signal) => {
    const lock = locks.get(key) ?? { slot: createSlots(1), callers: 0 }
    locks.set(key, lock)
    lock.callers += 1
    try {
      return await lock.slot.use(key, signal, work)
    } finally {
      lock.callers -= 1
      if (lock.callers === 0) locks.delete(key)
    }
  }
}
