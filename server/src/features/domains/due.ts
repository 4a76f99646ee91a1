import type { DomainStatus } from '../../contract/domains.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** An unverified domain is checked less and less often. In the end it rests until its owner requests a check. */
const firstWaitsMs = [1, 2, 5, 10, 20, 40].map((minutes) => minutes * minuteMs)
const restsAfterMs = 7 * 24 * hourMs

const servedWaitMs = 6 * hourMs
/** The wait while the DNS of a served domain is wrong: shorter, so that a correction is noticed soon. */
const wrongWaitMs = 30 * minuteMs

/** So many consecutive failed checks in so much time mean that DNS is wrong and not only slow. */
const wrongChecksToFail = 3
const wrongTimeToFailMs = hourMs

export interface CheckHistory {
  readonly status: DomainStatus
  /** The time of the owner's last request for a check, and the number of checks since. */
  readonly asked_at: Date
  readonly checks: number
  /** The number of consecutive checks that found the domain wrong, and the time of the first of them. */
  readonly wrong_checks: number
  readonly wrong_since: Date | null
}

export function afterCheck(before: CheckHistory, isRight: boolean, now: Date): CheckHistory {
  const checks = before.checks + 1
  if (isRight) return { ...before, status: 'active', checks, wrong_checks: 0, wrong_since: null }
  const wrong_checks = before.wrong_checks + 1
  const wrong_since = before.wrong_since ?? now
  const hasFailed = wrong_checks >= wrongChecksToFail && now.getTime() - wrong_since.getTime() >= wrongTimeToFailMs
  return { ...before, status: hasFailed ? 'failing' : before.status, checks, wrong_checks, wrong_since }
}

/**
 * Returns the time of the check that follows a check at `now`; null when the domain gets no check until its owner
 * requests one.
 */
export function nextCheckAt({ status, asked_at, checks, wrong_checks }: CheckHistory, now: Date): Date | null {
  const after = (ms: number) => new Date(now.getTime() + ms)
  if (status === 'failing') return after(hourMs)
  if (status === 'active') return after(wrong_checks === 0 ? servedWaitMs : wrongWaitMs)
  if (now.getTime() - asked_at.getTime() >= restsAfterMs) return null
  return after(firstWaitsMs[checks - 1] ?? hourMs)
}

/** The longest time between two checks. A later stored time comes from a wrong clock. */
export const longestWaitMs = servedWaitMs
