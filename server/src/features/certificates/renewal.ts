import { createHash } from 'node:crypto'
import { getDomain } from 'tldts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The waits after consecutive failures; the last wait repeats. */
const waitsMs = [1, 5, 15, 60, 180, 360, 720].map((minutes) => minutes * minuteMs)
/** The share of a wait by which it varies, so that certificates that failed together are not tried together. */
const waitSpread = 0.1
/** A longer `Retry-After` is cut to this time. */
const longestPauseMs = 8 * dayMs

/** An authority that does not answer is asked again after this time at the latest. */
const longestProbeMs = 15 * minuteMs

/** Renewals are spread over this share of the lifetime, which ends at two thirds of the lifetime. */
const renewalSpread = 1 / 30

const dangerMs = 10 * dayMs

export interface Lifetime {
  readonly notBefore: Date
  readonly expiresAt: Date
}

/**
 * Returns the time of a certificate's renewal: at two thirds of its lifetime at the latest, however short it is. The
 * same certificate always gets the same time.
 *
 * @param serial the serial number of the certificate
 */
export function renewalAt({ notBefore, expiresAt }: Lifetime, serial: string): Date {
  const lifetime = expiresAt.getTime() - notBefore.getTime()
  const share = 2 / 3 - renewalSpread * fractionOf(serial)
  return new Date(notBefore.getTime() + lifetime * share)
}

/** Returns a number from 0 to 1 (exclusive) that depends only on the text. */
const fractionOf = (text: string): number => createHash('sha256').update(text).digest().readUInt32BE(0) / 2 ** 32

/**
 * @param failures the consecutive failures, including the current failure
 * @param retryAfterMs the wait that the authority asked for; 0 for none
 * @param random 0 to 1
 */
export function nextAttemptAt(failures: number, retryAfterMs: number, now: Date, random: number): Date {
  const wait = waitsMs[Math.min(failures, waitsMs.length) - 1] ?? minuteMs
  const spread = wait * (1 + waitSpread * (2 * random - 1))
  return new Date(now.getTime() + Math.max(spread, Math.min(retryAfterMs, longestPauseMs)))
}

/**
 * Returns the time until which other certificates wait after a failed attempt. It depends on the authority's answer,
 * not on earlier failures of this certificate.
 *
 * @param next the time of this certificate's next attempt, which ends the pause when the authority has named no time
 */
export function pauseEnd(retryAfterMs: number, next: Date, now: Date): Date {
  if (retryAfterMs > 0) return new Date(now.getTime() + Math.min(retryAfterMs, longestPauseMs))
  return new Date(Math.min(next.getTime(), now.getTime() + longestProbeMs))
}

/** True when a certificate expires within 10 days, or within a third of its lifetime when that is shorter. */
export function isInDanger({ notBefore, expiresAt }: Lifetime, now: Date): boolean {
  const third = (expiresAt.getTime() - notBefore.getTime()) / 3
  return expiresAt.getTime() - now.getTime() < Math.min(dangerMs, third)
}

/**
 * True when the owner should be told about a certificate: a renewal has failed twice, or once when little time is left.
 * For a certificate that was never obtained, the second failure counts.
 */
export function isIncident(failures: number, lifetime: Lifetime | null, now: Date): boolean {
  return failures >= 2 || (failures >= 1 && lifetime !== null && isInDanger(lifetime, now))
}

export interface AuthorityLimits {
  /** New certificates below one registered domain in a week. */
  readonly perDomain: number
  /** Orders of one account at the authority in three hours. */
  readonly perAccount: number
}

/** The orders in the period of a limit: of all accounts, and of the account that asks. */
export interface UsedOrders {
  readonly all: number
  readonly own: number
}

/** The limits of Let's Encrypt (letsencrypt.org/docs/rate-limits), reduced: somebody may also order by hand. */
const letsEncrypt: AuthorityLimits = { perDomain: 48, perAccount: 290 }
/** Private authorities and test authorities enforce their own limits. */
const otherAuthorities: AuthorityLimits = { perDomain: 1000, perAccount: 1000 }

/** @param directory the URL of an authority's directory */
export function limitsOf(directory: string): AuthorityLimits {
  return new URL(directory).hostname.endsWith('.letsencrypt.org') ? letsEncrypt : otherAuthorities
}

/**
 * True when one more order fits. A tenant gets at most half of what the other accounts have left, so that no tenant can
 * use up the limit. The operator's account may use the rest.
 */
export function mayOrder(most: number, { all, own }: UsedOrders, isOperator: boolean): boolean {
  return all < most && (isOperator || own < (most - (all - own)) / 2)
}

/**
 * Returns the domain for which authorities count a name: the domain directly below a public suffix (publicsuffix.org).
 */
export function registeredDomain(name: string): string {
  const host = name.replace(/^\*\./, '')
  return getDomain(host, { allowPrivateDomains: true, validateHostname: false }) ?? host
}
