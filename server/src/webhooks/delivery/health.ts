/** Since when every attempt at an endpoint has failed, and how many those were. */
export interface Health {
  readonly failingSince: Date | null
  readonly failedAttempts: number
}

export const healthy: Health = { failingSince: null, failedAttempts: 0 }

const minFailingMs = 5 * 24 * 3_600_000
const minFailures = 20

/** Returns an endpoint's health after one more attempt. */
export function healthAfter(health: Health, ok: boolean, now: Date): Health {
  if (ok) return healthy
  return { failingSince: health.failingSince ?? now, failedAttempts: health.failedAttempts + 1 }
}

/** True when an endpoint has failed for so long, and so often, that its webhook is disabled. */
export function hasFailedForGood(health: Health, now: Date): boolean {
  if (health.failingSince === null || health.failedAttempts < minFailures) return false
  return now.getTime() - health.failingSince.getTime() >= minFailingMs
}
