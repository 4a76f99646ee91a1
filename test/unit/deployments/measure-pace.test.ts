import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { measureIsDue } from '../../../server/src/features/deployments/disk-guard.ts'

const last = { endedAt: 0, tookMs: 10, restBytes: 1_000 }

describe('a step’s output on the disk is measured again', () => {
  it('when the free space has fallen by half of the remaining space', () => {
    expect(measureIsDue(last, 2_000, 500)).toBe(true)
    expect(measureIsDue(last, 2_000, 499)).toBe(false)
  })

  it('after a while in any case', () => {
    expect(measureIsDue(last, 9_999, 0)).toBe(false)
    expect(measureIsDue(last, 10_000, 0)).toBe(true)
  })

  it('at most every two seconds, and at most a tenth of the time', () => {
    const size = fc.nat({ max: 1e12 })
    fc.assert(
      fc.property(size, size, fc.nat({ max: 60_000 }), fc.nat({ max: 1e6 }), (rest, fell, tookMs, now) => {
        const isDue = measureIsDue({ endedAt: 0, tookMs, restBytes: rest }, now, fell)
        if (isDue) expect(now).toBeGreaterThanOrEqual(Math.max(2_000, 10 * tookMs))
      }),
    )
  })
})
