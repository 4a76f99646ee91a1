import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Health,
  hasFailedForGood,
  healthAfter,
  healthy,
  nextAfter,
  parseRetryAfter,
  waitAfter,
} from '../../../server/src/features/webhooks/retries.ts'

const second = 1_000
const hour = 3_600 * second
const day = 24 * hour
const now = new Date('2026-01-31T12:00:00.000Z')
const random = fc.double({ min: 0, max: 1, noNaN: true })
const schedule = [0, 5 * second, 300 * second, 1_800 * second, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * hour)]

describe('the schedule', () => {
  it('has ten attempts, each within a fifth of its time', () => {
    fc.assert(
      fc.property(fc.nat({ max: 30 }), random, (made, chance) => {
        const wait = waitAfter(made, chance)
        const planned = schedule[made]
        if (planned === undefined) return wait === undefined
        return wait !== undefined && wait >= planned * 0.8 - 1 && wait <= planned * 1.2 + 1
      }),
    )
  })

  it('reaches both ends of the jitter', () => {
    expect([waitAfter(1, 0), waitAfter(1, 0.5), waitAfter(1, 1)]).toEqual([4_000, 5_000, 6_000])
  })

  it('ends with success, with 410, or with the tenth failure, and never before', () => {
    const status = fc.oneof(fc.constant(null), fc.integer({ min: 100, max: 599 }))
    fc.assert(
      fc.property(status, fc.boolean(), fc.nat({ max: 12 }), random, (status, complete, failures, chance) => {
        const ok = complete && status !== null && status >= 200 && status < 300
        const next = nextAfter({ ok, status, retryAfter: null }, failures, now, chance)
        if (ok) expect(next).toEqual({ status: 'succeeded' })
        else if (status === 410) expect(next).toEqual({ status: 'failed', gone: true })
        else if (failures >= 9) expect(next).toEqual({ status: 'failed', gone: false })
        else expect(next).toMatchObject({ status: 'pending' })
      }),
    )
  })
})

describe('Retry-After', () => {
  const waitFor = (status: number, retryAfter: string, failures = 0) => {
    const next = nextAfter({ ok: false, status, retryAfter }, failures, now, 0.5)
    return next.status === 'pending' ? next.at.getTime() - now.getTime() : undefined
  }

  it.each([429, 502, 503, 504])('is honoured for %i', (status) => {
    expect(waitFor(status, '120')).toBe(120_000)
    expect(waitFor(status, 'Sat, 31 Jan 2026 12:02:00 GMT')).toBe(120_000)
  })

  it.each([400, 404, 500, 501])('is ignored for %i', (status) => {
    expect(waitFor(status, '120')).toBe(5_000)
  })

  it('never shortens a wait, and lengthens none beyond a day', () => {
    expect(waitFor(429, '1')).toBe(5_000)
    expect(waitFor(429, '31536000')).toBe(day)
    expect(waitFor(503, `1${'0'.repeat(400)}`)).toBe(day)
  })

  it('adds no attempt to the schedule', () => {
    expect(waitFor(429, '1', 9)).toBeUndefined()
  })

  it('is ignored when it is malformed', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.constantFrom('-1', '1.5', '0x10', 'soon', '', ' 5')), (value) => {
        const wait = parseRetryAfter(value, now)
        return wait >= 0 && !Number.isNaN(wait)
      }),
    )
    for (const nonsense of ['-1', '1.5', '0x10', 'soon', '', ' 5']) {
      expect(parseRetryAfter(nonsense, now), nonsense).toBe(0)
    }
  })
})

describe('an endpoint', () => {
  const healthOf = (results: readonly { ok: boolean; at: Date }[]): Health =>
    results.reduce((health, { ok, at }) => healthAfter(health, ok, at), healthy)

  it('has failed for good after five days and twenty failed attempts without a success, not before', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 12 }))), (attempts) => {
        const results = attempts.map(([ok], at) => {
          const hours = attempts.slice(0, at + 1).reduce((sum, [, more]) => sum + more, 0)
          return { ok, at: new Date(now.getTime() + hours * hour) }
        })
        const end = results.at(-1)?.at ?? now
        const failures = results.slice(results.findLastIndex(({ ok }) => ok) + 1)
        const since = failures[0]?.at.getTime() ?? end.getTime()
        const dead = failures.length >= 20 && end.getTime() - since >= 5 * day
        expect(hasFailedForGood(healthOf(results), end)).toBe(dead)
      }),
    )
  })

  it('is healthy again after one success', () => {
    const failures = Array.from({ length: 30 }, (_, at) => ({ ok: false, at: new Date(now.getTime() + at * 6 * hour) }))
    const end = new Date(now.getTime() + 8 * day)
    expect(hasFailedForGood(healthOf(failures), end)).toBe(true)
    expect(healthOf([...failures, { ok: true, at: end }])).toEqual(healthy)
  })
})
