import type { DatabaseLimits } from './plan-limits.ts'

/** A database far above its size: its owner may make it smaller, but is locked out for some time after each growth. */
export interface Shrinking {
  /** The size in bytes up to which nothing happens: a little more than the smallest measured size. */
  readonly allowance: number
  /** The time (as in `Date.now()`) until which nobody can log in; `null` while users can. */
  readonly closedUntil: number | null
  readonly nextLockoutMs: number
}

const firstLockoutMs = 5 * 60_000
const longestLockoutMs = 24 * 60 * 60_000

/** Deleting and vacuuming write a little, such as maps of free space and the catalogue. */
const slack = (limits: DatabaseLimits): number => Math.max(8_000_000, limits.bytes / 100)

/**
 * Returns the state after a measurement. Between two measurements a database can grow only by what is written in that
 * time, and lockouts get longer, up to a day.
 */
export function nextShrinking(
  state: Shrinking | undefined,
  sizeBytes: number,
  limits: DatabaseLimits,
  now: number,
): Shrinking {
  const allowance = sizeBytes + slack(limits)
  if (state === undefined) return { allowance, closedUntil: null, nextLockoutMs: firstLockoutMs }
  if (state.closedUntil !== null) return now < state.closedUntil ? state : { ...state, allowance, closedUntil: null }
  if (sizeBytes <= state.allowance) return { ...state, allowance: Math.min(state.allowance, allowance) }
  const { nextLockoutMs } = state
  return {
    allowance,
    closedUntil: now + nextLockoutMs,
    nextLockoutMs: Math.min(longestLockoutMs, nextLockoutMs * 2),
  }
}
