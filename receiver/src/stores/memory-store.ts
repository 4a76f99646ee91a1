import { ReceiverError } from '../errors.ts'
import type { Claim, DedupeStore } from './dedupe.ts'

export interface MemoryStoreOptions {
  /** Maximum number of remembered webhooks; the oldest are dropped. Default: 100,000. */
  readonly capacity?: number
  /** Returns the current time in Unix milliseconds. Default: `Date.now`. */
  readonly clock?: () => number
}

/**
 * A store in the memory of this process. Other processes do not share it, and it ends with this process.
 * @throws ReceiverError `invalid_option`
 */
export function memoryStore({ capacity = 100_000, clock = Date.now }: MemoryStoreOptions = {}): DedupeStore {
  if (!Number.isInteger(capacity) || capacity < 1) {
    throw new ReceiverError('invalid_option', '`capacity` is not a whole number of 1 or more.')
  }
  const done = new Set<string>()
  const leases = new Map<string, { readonly until: number }>()

  const claim = (key: string, lease: number): Claim => {
    if (done.has(key)) return { state: 'done' }
    const now = clock()
    if ((leases.get(key)?.until ?? now) > now) return { state: 'busy' }
    const mine = { until: now + lease }
    leases.set(key, mine)
    const endLease = (): boolean => leases.get(key) === mine && leases.delete(key)
    return {
      state: 'claimed',
      commit: async () => {
        if (!endLease()) return
        // A Set keeps insertion order, so its first key was committed first.
        const [oldest] = done
        if (oldest !== undefined && done.size >= capacity) done.delete(oldest)
        done.add(key)
      },
      release: async () => {
        endLease()
      },
    }
  }
  return { claim: async (key, lease) => claim(key, lease) }
}
