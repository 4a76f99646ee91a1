/** Decides when a release that has ended is started again, and when that was too often. Times are in milliseconds. */
export interface Restarts {
  isDue(id: string, now: number): boolean
  note(id: string, now: number): void
  /** Records that the last start has failed just now: a start may take longer than the calm time. */
  noteFailure(id: string, now: number): void
  /** True when it was started again as often as is allowed, without a calm time in between. */
  isLoop(id: string, now: number): boolean
  forget(id: string): void
}

/** This many restarts, each within a minute of the one before, are a crash loop. */
const restartsAllowed = 5
const calmMs = 60_000
/** Restarts follow at once, then after 1, 2, 4 and 8 s. */
const firstPauseMs = 1_000

export function createRestarts(): Restarts {
  const seen = new Map<string, { count: number; lastAt: number }>()
  const current = (id: string, now: number) => {
    const restarts = seen.get(id)
    return restarts === undefined || now - restarts.lastAt > calmMs ? { count: 0, lastAt: -Infinity } : restarts
  }
  return {
    isDue(id, now) {
      const { count, lastAt } = current(id, now)
      return count === 0 || now - lastAt >= firstPauseMs * 2 ** (count - 1)
    },
    note(id, now) {
      seen.set(id, { count: current(id, now).count + 1, lastAt: now })
    },
    noteFailure(id, now) {
      const restarts = seen.get(id)
      if (restarts !== undefined) seen.set(id, { ...restarts, lastAt: now })
    },
    isLoop: (id, now) => current(id, now).count >= restartsAllowed,
    forget(id) {
      seen.delete(id)
    },
  }
}
