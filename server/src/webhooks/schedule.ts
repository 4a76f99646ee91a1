const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** The wait before each attempt, from the first on. */
const waits = [
  0,
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
] as const

/** How far a wait may differ from the schedule, so that receivers that fail together are not asked together again. */
const jitter = 0.2

/** A receiver may ask for no longer wait than the schedule itself knows. */
const longestRetryAfter = 24 * hour

/** The answers that say when to come again (RFC 9110, 10.2.3), besides those that no retry follows. */
const waitingStatuses: ReadonlySet<number> = new Set([429, 502, 503, 504])

/**
 * Milliseconds to wait after `made` attempts that all failed; `undefined` when there is no further one.
 * `random` is a number from 0 to 1.
 */
export function waitAfter(made: number, random: number): number | undefined {
  const wait = waits[made]
  return wait === undefined ? undefined : Math.round(wait * (1 - jitter + 2 * jitter * random))
}

/** What one attempt came to, as far as the schedule asks. */
export interface Attempted {
  /** Whether the receiver has taken the event: a complete 2xx answer. */
  readonly ok: boolean
  readonly status: number | null
  /** The value of the answer's `Retry-After`. */
  readonly retryAfter: string | null
}

export type Next =
  | { readonly status: 'succeeded' }
  /** `gone`: the receiver wants nothing any more. */
  | { readonly status: 'failed'; readonly gone: boolean }
  | { readonly status: 'pending'; readonly at: Date }

/** What follows an attempt. `failures` counts those of this round, this one not included. */
export function nextAfter(attempted: Attempted, failures: number, now: Date, random: number): Next {
  if (attempted.ok) return { status: 'succeeded' }
  if (attempted.status === 410) return { status: 'failed', gone: true }
  const wait = waitAfter(failures + 1, random)
  if (wait === undefined) return { status: 'failed', gone: false }
  const asked = waitingStatuses.has(attempted.status ?? 0) ? parseRetryAfter(attempted.retryAfter, now) : 0
  return { status: 'pending', at: new Date(now.getTime() + Math.max(wait, Math.min(asked, longestRetryAfter))) }
}

/** Milliseconds from `now` that a `Retry-After` of seconds or of a date asks for; 0 for anything else. */
export function parseRetryAfter(value: string | null, now: Date): number {
  if (value === null) return 0
  if (/^\d+$/.test(value)) return Number(value) * second
  const date = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(date) ? 0 : Math.max(0, date - now.getTime())
}

/** For how long a receiver has done nothing but fail. */
export interface Health {
  readonly failingSince: Date | null
  readonly failedAttempts: number
}

export const healthy: Health = { failingSince: null, failedAttempts: 0 }

const patience = 5 * day
const leastFailures = 20

/** A receiver's health after one more attempt. */
export function healthAfter(health: Health, ok: boolean, now: Date): Health {
  if (ok) return healthy
  return { failingSince: health.failingSince ?? now, failedAttempts: health.failedAttempts + 1 }
}

/** Whether it has failed for so long, and often enough to be sure, that it is not asked any more. */
export function isDead(health: Health, now: Date): boolean {
  if (health.failingSince === null || health.failedAttempts < leastFailures) return false
  return now.getTime() - health.failingSince.getTime() >= patience
}
