import type { Handle } from '../../runtimes/runtime.ts'

/** Remembers since when instances that live do not listen. Times are in milliseconds. */
export interface Silences {
  /** Notes that an instance does not listen now. True when that lasts: a supervisor starts its worker again by itself. */
  isTooLong(handle: Handle, now: number): boolean
}

const recoverMs = 5_000
/** One that was noted longer ago than this has listened in between, or is gone. */
const forgottenMs = 60_000

export function createSilences(): Silences {
  const silent = new Map<string, { readonly since: number; seen: number }>()
  return {
    isTooLong(handle, now) {
      for (const [key, { seen }] of silent) if (now - seen > forgottenMs) silent.delete(key)
      const key = JSON.stringify(handle)
      const silence = silent.get(key) ?? { since: now, seen: now }
      silence.seen = now
      silent.set(key, silence)
      return now - silence.since > recoverMs
    },
  }
}
