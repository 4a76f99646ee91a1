import type { DomainStatus } from '../contract/domains.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** A domain that is not verified is looked at more and more rarely, and rests in the end until its owner asks. */
const firstWaitsMs = [1, 2, 5, 10, 20, 40].map((minutes) => minutes * minuteMs)
const restsAfterMs = 7 * 24 * hourMs

const servedWaitMs = 6 * hourMs
/** The wait while the DNS of a served domain is wrong: shorter, so that it is soon seen to be right again. */
const wrongWaitMs = 30 * minuteMs

/** The checks in a row, and the time over which they fail, after which DNS is wrong, and not only slow to answer. */
const wrongChecksToFail = 3
const wrongTimeToFailMs = hourMs

/** The checks of a domain so far. */
export interface CheckHistory {
  readonly status: DomainStatus
  /** The time at which its owner asked for a check last, and the checks since. */
  readonly asked_at: Date
  readonly checks: number
  /** The checks in a row that found it wrong, and the time of the first one. */
  readonly wrong_checks: number
  readonly wrong_since: Date | null
}

/** Returns the history after a check of a domain that is served. */
export function afterCheck(before: CheckHistory, isRight: boolean, now: Date): CheckHistory {
  const checks = before.checks + 1
  if (isRight) return { ...before, status: 'active', checks, wrong_checks: 0, wrong_since: null }
  const wrong_checks = before.wrong_checks + 1
  const wrong_since = before.wrong_since ?? now
  const hasFailed = wrong_checks >= wrongChecksToFail && now.getTime() - wrong_since.getTime() >= wrongTimeToFailMs
  return { ...before, status: hasFailed ? 'failing' : before.status, checks, wrong_checks, wrong_since }
}

/** Returns the time of the next check after one at `now`; null when the domain rests until its owner asks. */
export function nextCheckAt({ status, asked_at, checks, wrong_checks }: CheckHistory, now: Date): Date | null {
  const after = (ms: number) => new Date(now.getTime() + ms)
  if (status === 'failing') return after(hourMs)
  if (status === 'active') return after(wrong_checks === 0 ? servedWaitMs : wrongWaitMs)
  if (now.getTime() - asked_at.getTime() >= restsAfterMs) return null
  return after(firstWaitsMs[checks - 1] ?? hourMs)
}

/** The longest time between two checks. A time that is further away was stored while the clock was ahead. */
export const longestWaitMs = servedWaitMs
