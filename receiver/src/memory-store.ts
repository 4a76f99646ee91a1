import type { Claim, DedupeStore } from './dedupe.ts'
import { ReceiverError } from './errors.ts'

export interface MemoryStoreOptions {
  /** How many handled webhooks are remembered, the latest ones; 100,000 unless given. */
  readonly capacity?: number
  /** The present in Unix milliseconds; `Date.now` unless given. */
  readonly clock?: () => number
}

/**
 * Remembers in the memory of this process: enough for one process, until it ends.
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
    const end = (): boolean => leases.get(key) === mine && leases.delete(key)
    return {
      state: 'claimed',
      commit: async () => {
        if (!end()) return
        // A Set keeps its order: its first key is the one committed longest ago.
        const [oldest] = done
        if (oldest !== undefined && done.size >= capacity) done.delete(oldest)
        done.add(key)
      },
      release: async () => {
        end()
      },
    }
  }
  return { claim: async (key, lease) => claim(key, lease) }
}
