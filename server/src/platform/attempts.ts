/** Limits how often something may be attempted, by key (an address, say). */
export interface AttemptLimiter {
  /** Counts one attempt. Returns `undefined` when it is allowed, otherwise the whole seconds to wait. */
  take(key: string): number | undefined
  /** Takes back a counted attempt, because it succeeded. */
  giveBack(key: string): void
}

/** Bounds the memory. A client with more addresses than this can evade the limit in any case. */
const mostKeys = 10_000

/**
 * Allows `most` attempts in a window that begins with the first one. The counts are kept in memory: one server works on
 * a database at a time, and clients cannot restart it to reset them.
 */
export function createAttemptLimiter(options: { readonly most: number; readonly windowMs: number }): AttemptLimiter {
  const windows = new Map<string, { count: number; readonly endsAt: number }>()

  const windowOf = (key: string, now: number) => {
    const known = windows.get(key)
    if (known !== undefined && known.endsAt > now) return known
    // Delete and set again, so that the map stays ordered by the beginning of the windows and its first key is the oldest.
    windows.delete(key)
    const oldest = windows.size >= mostKeys ? windows.keys().next().value : undefined
    if (oldest !== undefined) windows.delete(oldest)
    const made = { count: 0, endsAt: now + options.windowMs }
    windows.set(key, made)
    return made
  }

  return {
    take(key) {
      const now = performance.now()
      const window = windowOf(key, now)
      if (window.count >= options.most) return Math.max(1, Math.ceil((window.endsAt - now) / 1000))
      window.count += 1
      return undefined
    },
    giveBack(key) {
      const window = windows.get(key)
      if (window !== undefined && window.count > 0) window.count -= 1
    },
  }
}
