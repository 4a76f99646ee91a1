import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  isIncident,
  isInDanger,
  limitsOf,
  mayOrder,
  nextAttemptAt,
  pauseEnd,
  registeredDomain,
  renewalAt,
} from '../../../server/src/features/certificates/renewal.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

const lifetimes = fc
  .record({
    from: fc.date({ min: new Date('2020-01-01'), max: new Date('2040-01-01'), noInvalidDate: true }),
    ms: fc.integer({ min: hourMs, max: 5 * 365 * dayMs }),
  })
  .map(({ from, ms }) => ({ notBefore: from, expiresAt: new Date(from.getTime() + ms) }))
const serials = fc.stringMatching(/^[0-9A-F]{8,40}$/)

const partOf = ({ notBefore, expiresAt }: { notBefore: Date; expiresAt: Date }, at: Date) =>
  (at.getTime() - notBefore.getTime()) / (expiresAt.getTime() - notBefore.getTime())

it('a certificate of any lifetime is renewed shortly before two thirds of it, always at the same time', () => {
  fc.assert(
    fc.property(lifetimes, serials, (lifetime, serial) => {
      const at = renewalAt(lifetime, serial)
      expect(renewalAt({ ...lifetime }, serial)).toEqual(at)
      expect(partOf(lifetime, at)).toBeGreaterThan(0.63)
      expect(partOf(lifetime, at)).toBeLessThanOrEqual(0.6667)
    }),
  )
})

it('certificates that were issued together are not renewed together', () => {
  const lifetime = { notBefore: new Date('2026-01-01'), expiresAt: new Date('2026-04-01') }
  const days = Array.from({ length: 100 }, (_, serial) =>
    renewalAt(lifetime, String(serial)).toISOString().slice(0, 13),
  )
  expect(new Set(days).size).toBeGreaterThan(40)
})

it('failed attempts are repeated at growing intervals, and never before the authority allows it', () => {
  const now = new Date('2026-01-01')
  const minutes = [1, 5, 15, 60, 180, 360, 720, 720, 720]
  const waits = fc.record({
    failures: fc.integer({ min: 1, max: minutes.length }),
    retryAfterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 7 * dayMs })),
    random: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  fc.assert(
    fc.property(waits, ({ failures, retryAfterMs, random }) => {
      const waited = nextAttemptAt(failures, retryAfterMs, now, random).getTime() - now.getTime()
      const usual = (minutes[failures - 1] ?? 0) * minuteMs
      expect(waited).toBeGreaterThanOrEqual(Math.max(0.9 * usual - 1, retryAfterMs))
      expect(waited).toBeLessThanOrEqual(Math.max(1.1 * usual + 1, retryAfterMs))
    }),
  )
})

it('a Retry-After of a year does not stop renewals for a year', () => {
  const now = new Date('2026-01-01')
  expect(nextAttemptAt(1, 365 * dayMs, now, 0.5).getTime() - now.getTime()).toBe(8 * dayMs)
})

it('other certificates wait as long as the authority has asked for, however often one has failed', () => {
  const now = new Date('2026-01-01')
  const wait = (failures: number, retryAfterMs: number) =>
    pauseEnd(retryAfterMs, nextAttemptAt(failures, retryAfterMs, now, 0.5), now).getTime() - now.getTime()
  expect([1, 7, 50].map((failures) => wait(failures, 10 * minuteMs))).toEqual(Array(3).fill(10 * minuteMs))
  expect(wait(1, 365 * dayMs)).toBe(8 * dayMs)
  expect([1, 2, 3, 4, 50].map((failures) => wait(failures, 0) / minuteMs)).toEqual([1, 5, 15, 15, 15])
})

it.each([
  ['90 days', 90, 11, false],
  ['90 days', 90, 9, true],
  ['6 days', 6, 3, false],
  ['6 days', 6, 1.9, true],
  ['a day', 1, 0.4, false],
  ['a day', 1, 0.3, true],
])('of a certificate of %s (%d), %d days before its end: in danger is %s', (_, days, left, expected) => {
  const expiresAt = new Date('2026-06-01')
  const lifetime = { notBefore: new Date(expiresAt.getTime() - days * dayMs), expiresAt }
  const now = new Date(expiresAt.getTime() - left * dayMs)
  expect(isInDanger(lifetime, now)).toBe(expected)
  expect(isIncident(1, lifetime, now)).toBe(expected)
  expect(isIncident(2, lifetime, now)).toBe(true)
  expect(isIncident(0, lifetime, now)).toBe(false)
})

it('the second failure of a new certificate is reported', () => {
  expect([0, 1, 2, 3].map((failures) => isIncident(failures, null, new Date()))).toEqual([false, false, true, true])
})

it('no tenant exhausts the authority’s limits, and all tenants together never exceed them', () => {
  const askers = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 400 })
  fc.assert(
    fc.property(askers, fc.integer({ min: 4, max: 300 }), (asking, most) => {
      const operator = 0
      const used = new Map<number, number>()
      const all = () => [...used.values()].reduce((sum, each) => sum + each, 0)
      for (const account of asking) {
        const own = used.get(account) ?? 0
        const before = all()
        if (!mayOrder(most, { all: before, own }, account === operator)) {
          // A tenant's first request is refused only when almost nothing of the limit remains.
          if (own === 0 && account !== operator) expect(most - before).toBeLessThanOrEqual(0)
          continue
        }
        used.set(account, own + 1)
      }
      expect(all()).toBeLessThanOrEqual(most)
      for (const [account, own] of used) if (account !== operator) expect(own).toBeLessThanOrEqual(most / 2 + 1)
    }),
  )
})

it('a tenant with a thousand apps leaves half of the limit to all others', () => {
  const { perDomain } = limitsOf('https://acme-v02.api.letsencrypt.org/directory')
  let own = 0
  while (mayOrder(perDomain, { all: own, own }, false)) own += 1
  expect(own).toBe(perDomain / 2)
  expect(mayOrder(perDomain, { all: own, own: 0 }, false)).toBe(true)
  expect(mayOrder(perDomain, { all: perDomain - 1, own: perDomain - 1 }, true)).toBe(true)
})

it.each([
  ['app-12345678.apps.example.com', 'example.com'],
  ['*.example.co.uk', 'example.co.uk'],
  ['a.b.someone.github.io', 'someone.github.io'],
  ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ['fairlead.example.test', 'example.test'],
  ['localhost', 'localhost'],
  ['github.io', 'github.io'],
])('the registered domain of %s is %s', (name, expected) => {
  expect(registeredDomain(name)).toBe(expected)
})
