const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** The wait before each attempt, beginning with the first. */
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

/** The largest share by which a wait varies, so that deliveries that failed together do not retry together. */
const jitter = 0.2

/** The longest wait that an endpoint's `Retry-After` can cause: the longest wait of the schedule. */
const maxRetryAfter = 24 * hour

/** The statuses for which `Retry-After` (RFC 9110 §10.2.3) is honoured. */
const retryAfterStatuses: ReadonlySet<number> = new Set([429, 502, 503, 504])

/**
 * Returns the milliseconds to wait after `failures` failed attempts; `undefined` after the last attempt. `random` is a
 * number from 0 to 1.
 */
export function waitAfter(failures: number, random: number): number | undefined {
  const wait = waits[failures]
  return wait === undefined ? undefined : Math.round(wait * (1 - jitter + 2 * jitter * random))
}

export interface AttemptOutcome {
  /** True when the endpoint accepted the event, with a complete 2xx answer. */
  readonly ok: boolean
  readonly status: number | null
  readonly retryAfter: string | null
}

export type Next =
  | { readonly status: 'succeeded' }
  /** `gone` is true when the endpoint answered 410: it wants no more events. */
  | { readonly status: 'failed'; readonly gone: boolean }
  | { readonly status: 'pending'; readonly at: Date }

/** Decides what follows an attempt. `failures` counts the earlier failed attempts of this round. */
export function nextAfter(outcome: AttemptOutcome, failures: number, now: Date, random: number): Next {
  if (outcome.ok) return { status: 'succeeded' }
  if (outcome.status === 410) return { status: 'failed', gone: true }
  const wait = waitAfter(failures + 1, random)
  if (wait === undefined) return { status: 'failed', gone: false }
  const requested = retryAfterStatuses.has(outcome.status ?? 0) ? parseRetryAfter(outcome.retryAfter, now) : 0
  return { status: 'pending', at: new Date(now.getTime() + Math.max(wait, Math.min(requested, maxRetryAfter))) }
}

/** Returns the milliseconds from `now` for a `Retry-After` in seconds or with a date; 0 for any other value. */
export function parseRetryAfter(value: string | null, now: Date): number {
  if (value === null) return 0
  if (/^\d+$/.test(value)) return Number(value) * second
  const date = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value) ? Date.parse(value) : NaN
  return Number.isNaN(date) ? 0 : Math.max(0, date - now.getTime())
}

/** The time since which every attempt at an endpoint has failed, and the number of these attempts. */
export interface Health {
  readonly failingSince: Date | null
  readonly failedAttempts: number
}

export const healthy: Health = { failingSince: null, failedAttempts: 0 }

const minFailingMs = 5 * 24 * 3_600_000
const minFailures = 20

export function healthAfter(health: Health, ok: boolean, now: Date): Health {
  if (ok) return healthy
  return { failingSince: health.failingSince ?? now, failedAttempts: health.failedAttempts + 1 }
}

export function hasFailedForGood(health: Health, now: Date): boolean {
  if (health.failingSince === null || health.failedAttempts < minFailures) return false
  return now.getTime() - health.failingSince.getTime() >= minFailingMs
}
