/** Decides when a release that has ended is started again, and when that was too often. Times are in milliseconds. */
export interface Restarts {
  isDue(id: string, now: number): boolean
  note(id: string, now: number): void
  /** Records that the last start has failed just now: a start may take longer than the calm time. */
  noteFailure(id: string, now: number): void
  /**
   * Takes back the last note, because the machine could not start it: that is no crash. The next start is due after a pause
   * that doubles each time, up to a minute.
   */
  postpone(id: string, now: number): void
  /** True when it was started again as often as is allowed, without a calm time in between. */
  isLoop(id: string, now: number): boolean
  forget(id: string): void
}

/** This many restarts, each within a minute of the one before, are a crash loop. */
const restartsAllowed = 5
const calmMs = 60_000
/** Restarts follow at once, then after 1, 2, 4 and 8 s. */
const firstPauseMs = 1_000
const longestPostponeMs = 60_000

interface Seen {
  readonly count: number
  readonly lastAt: number
  readonly postponed: number
  readonly notBefore: number
}

export function createRestarts(): Restarts {
  const seen = new Map<string, Seen>()
  const current = (id: string, now: number): Seen => {
    const restarts = seen.get(id)
    if (restarts === undefined) return { count: 0, lastAt: -Infinity, postponed: 0, notBefore: -Infinity }
    return now - restarts.lastAt > calmMs ? { ...restarts, count: 0, lastAt: -Infinity } : restarts
  }
  return {
    isDue(id, now) {
      const { count, lastAt, notBefore } = current(id, now)
      if (now < notBefore) return false
      return count === 0 || now - lastAt >= firstPauseMs * 2 ** (count - 1)
    },
    note(id, now) {
      const restarts = current(id, now)
      seen.set(id, { ...restarts, count: restarts.count + 1, lastAt: now })
    },
    noteFailure(id, now) {
      const restarts = seen.get(id)
      if (restarts !== undefined) seen.set(id, { ...restarts, lastAt: now })
    },
    postpone(id, now) {
      const { count, lastAt, postponed } = current(id, now)
      const pauseMs = Math.min(longestPostponeMs, firstPauseMs * 2 ** postponed)
      seen.set(id, { count: Math.max(0, count - 1), lastAt, postponed: postponed + 1, notBefore: now + pauseMs })
    },
    isLoop: (id, now) => current(id, now).count >= restartsAllowed,
    forget(id) {
      seen.delete(id)
    },
  }
}
