import { describe, expect, it } from 'vitest'
import {
  AcmeError,
  explain,
  explainChallenge,
  type PauseScope,
} from '../../../server/src/features/certificates/acme/errors.ts'

const failed = (status: number, type: string, detail: string) =>
  explain(new AcmeError(detail, { problem: { type, detail }, status, retryAfterMs: 7000 }))

const end = 'in the last 168h0m0s, retry after 2026-06-01 10:00:00 UTC: see https://letsencrypt.org/docs/rate-limits/'

/** The texts of Boulder, of its earlier versions, and of the proxies in front of it. */
const texts: Readonly<Record<PauseScope, readonly string[]>> = {
  all: [
    `too many new orders (300) from this account ${end}#new-orders-per-account`,
    `too many new registrations (10) from this IP address ${end}#new-registrations-per-ip-address`,
    `too many new registrations (500) from this /48 subnet of IPv6 addresses ${end}`,
    'Error creating new account :: too many registrations for this IP: see https://letsencrypt.org/docs/rate-limits/',
    'Error creating new order :: too many new orders recently: see https://letsencrypt.org/docs/rate-limits/',
    'Too many requests',
    "Rate limit for '/directory' reached",
    "Rate limit for '/acme' reached",
  ],
  domain: [
    `too many certificates (50) already issued for "example.com" ${end}#new-certificates-per-registered-domain`,
    'Error creating new order :: too many certificates already issued for "example.com". Retry after 2026-06-01T10:00:00Z',
    'Error creating new cert :: Too many certificates already issued for: example.com',
  ],
  names: [
    `too many certificates (5) already issued for this exact set of identifiers ${end}`,
    `too many certificates (5) already issued for this exact set of domains ${end}`,
    'Error creating new order :: too many certificates (5) already issued for this exact set of domains in the last 168 hours: example.com',
    `too many failed authorizations (5) for "www.example.com" ${end}`,
    'Error creating new order :: too many failed authorizations recently: see https://letsencrypt.org/docs/rate-limits/',
    'Your account is temporarily prevented from requesting certificates for www.example.com and possibly others. Please visit: https://portal.example/unpause?jwt=a.b.c',
    'Your IP address has sent too many requests',
    'Come back later',
    '',
  ],
}

/** Names that a tenant may choose. */
const hostile = [
  'requests.evil.com',
  'this-account.evil.com',
  'new-orders.evil.com',
  'too-many-requests.evil.com',
  'service-busy.evil.com',
  'already-issued-for.shop.com',
]

describe('a limit of the authority', () => {
  it.each(Object.entries(texts).flatMap(([scope, details]) => details.map((detail) => [scope, detail] as const)))(
    'applies to %s: %s',
    (scope, detail) => {
      const { failure, facts } = failed(429, 'rateLimited', detail)
      expect(failure.code).toBe('rate_limited')
      expect(facts).toMatchObject({ pauses: scope, retryAfterMs: 7000 })
    },
  )

  it.each(hostile)('never applies to others because of a name such as %s', (name) => {
    for (const detail of [
      ...texts.names.map((text) => `${text} ${name} "${name}"`),
      ...texts.names.map((text) => text.replace('www.example.com', name)),
      `Rejected: "${name}" has too many requests from this account`,
      `"${name}": too many new orders`,
      `${name}: too many certificates (5) already issued for "example.com"`,
    ]) {
      expect(failed(429, 'rateLimited', detail).facts.pauses, detail).toBe('names')
    }
    const ofIts = `too many certificates (50) already issued for "${name}" ${end}`
    expect(failed(429, 'rateLimited', ofIts).facts.pauses).toBe('domain')
  })

  it.each([429, 503])('is not assumed where the authority is overloaded (%d): it is asked again soon', (status) => {
    const { failure, facts } = failed(status, 'rateLimited', 'Service busy; retry later.')
    expect(failure.code).toBe('authority_error')
    expect(facts).toMatchObject({ pauses: 'all', keepsOrder: true })
  })
})

describe('an error of the authority', () => {
  it('makes all wait, and hides the requested name from them', () => {
    const { failure, facts } = failed(500, 'serverInternal', 'oh, www.example.com')
    expect(failure.message).toContain('“oh, www.example.com”')
    expect(facts).toMatchObject({ pauses: 'all', keepsOrder: true })
    expect(facts.toTenants).toMatch(/^The certificate authority refused/)
    expect(facts.toTenants).not.toContain('www.example.com')
  })

  it.each(['constructor', '__proto__', 'toString'])('of a kind that no object has counts as unknown: %s', (type) => {
    expect(failed(400, type, 'no').failure.code).toBe('authority_error')
    expect(failed(500, type, 'no').failure.code).toBe('authority_error')
  })

  it('in the proof of a name, which its owner can provoke, makes only its owner wait', () => {
    const detail = 'Remote PerformValidation RPC failed'
    expect(explainChallenge({ type: 'serverInternal', detail }).facts.pauses).toBeUndefined()
    expect(explainChallenge({ type: 'rateLimited', detail: 'DNS: requests' }).facts.pauses).toBe('names')
  })
})
