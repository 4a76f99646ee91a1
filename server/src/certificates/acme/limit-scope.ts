import type { PauseScope } from './attempt-error.ts'

/** Boulder may begin with what it was asked for: `Error creating new order :: …`. */
const request = /^error [a-z ]+ :: /i

/** Limits of the account and of the address of this server, and those in front of Let's Encrypt (`Rate limit for '/acme' reached`). */
const ofAll = /^(too many (new )?(orders|registrations|requests)\b|rate limit for '\/)/i

/** `too many certificates (50) already issued for "example.com" …`. The limit for the same names has no name at that place. */
const ofDomain = /^too many certificates (\(\d+\) )?already issued for:? "?[a-z0-9-]+(\.[a-z0-9-]+)+/i

/**
 * Returns the certificates that a limit holds for, by the words in which Boulder tells of it (`ratelimits/limiter.go`). They are
 * looked for at the beginning alone: further on, the text quotes the names of tenants. Other texts are of the names that were asked
 * for, so that nobody can make others wait by a text that nobody knows.
 */
export function scopeOfLimit(detail: string): PauseScope {
  const said = detail.replace(request, '')
  if (ofAll.test(said)) return 'all'
  return ofDomain.test(said) ? 'domain' : 'names'
}
