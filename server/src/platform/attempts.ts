/** Counts attempts by whatever makes them, and says when there were too many. */
export interface AttemptLimiter {
  /** Counts one; the whole seconds to wait if that is too many, else `undefined`. */
  take(key: string): number | undefined
  /** That attempt was a good one and does not count. */
  giveBack(key: string): void
}

/** Whoever has more addresses than this gains more by them than by being forgotten. */
const mostKeys = 10_000

/**
 * At most `most` attempts in a window that begins with the first one. Kept in memory: one server works on a database
 * at a time, and nobody outside can restart it to be forgotten.
 */
export function createAttemptLimiter(options: { readonly most: number; readonly windowMs: number }): AttemptLimiter {
  const windows = new Map<string, { count: number; readonly endsAt: number }>()

  const windowOf = (key: string, now: number) => {
    const known = windows.get(key)
    if (known !== undefined && known.endsAt > now) return known
    // In the order of their beginning, so that the first one is the oldest.
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
