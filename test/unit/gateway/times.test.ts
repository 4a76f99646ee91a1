import fc from 'fast-check'
import { expect, it } from 'vitest'
import { addCounts, noTimes, quantileOf, rangeOf, trimmed } from '../../../server/src/gateway/protocol/latency.ts'

const times = fc.array(fc.double({ min: 0.01, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 200 })

function countsOf(all: readonly number[]): number[] {
  const counts = noTimes()
  for (const time of all) counts[rangeOf(time)] = (counts[rangeOf(time)] ?? 0) + 1
  return counts
}

it('latency counts give every percentile to within a fifth, and a millisecond', () => {
  fc.assert(
    fc.property(times, fc.constantFrom(0.5, 0.95, 0.99, 1), (all, share) => {
      const sorted = [...all].sort((a, b) => a - b)
      const exact = sorted[Math.ceil(share * sorted.length) - 1] ?? 0
      const found = quantileOf(countsOf(all), share) ?? Number.NaN
      expect(found).toBeLessThanOrEqual(Math.max(1, exact * 1.2))
      expect(found).toBeGreaterThanOrEqual(exact <= 1 ? 0 : exact / 1.2)
    }),
  )
})

it('latency counts add up: the total equals the sum of the parts', () => {
  fc.assert(
    fc.property(times, times, (a, b) => {
      expect(addCounts(trimmed(countsOf(a)), trimmed(countsOf(b)))).toEqual(trimmed(countsOf([...a, ...b])))
    }),
  )
})

it('latency counts have no percentile without a response, and a slot for every time', () => {
  expect(quantileOf(noTimes(), 0.5)).toBeNull()
  expect([rangeOf(0), rangeOf(1)]).toEqual([0, 0])
  expect(rangeOf(Number.MAX_SAFE_INTEGER)).toBe(noTimes().length - 1)
})
