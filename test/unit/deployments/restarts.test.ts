import { expect, it } from 'vitest'
import { createRestarts } from '../../../server/src/features/deployments/reconcile.ts'

it('restarts begin at once, then after doubling pauses, and five in a row are a loop', () => {
  const restarts = createRestarts()
  let now = 1_000_000
  const pauses: number[] = []
  for (let start = 0; start < 5; start++) {
    expect(restarts.isLoop('dep_1', now)).toBe(false)
    const begun = now
    while (!restarts.isDue('dep_1', now)) now += 100
    pauses.push(now - begun)
    restarts.note('dep_1', now)
  }
  expect(pauses).toEqual([0, 1_000, 2_000, 4_000, 8_000])
  expect(restarts.isLoop('dep_1', now)).toBe(true)
  expect(restarts.isLoop('dep_2', now)).toBe(false)
})

it('restarts are forgotten after a calm minute, but not while a start takes longer than that to fail', () => {
  const restarts = createRestarts()
  for (let start = 0; start < 5; start++) restarts.note('dep_1', 0)
  expect(restarts.isLoop('dep_1', 60_001)).toBe(false)
  for (let start = 0, now = 0; start < 5; start++, now += 61_000) {
    restarts.note('dep_2', now)
    restarts.noteFailure('dep_2', now + 60_500)
  }
  expect(restarts.isLoop('dep_2', 4 * 61_000 + 60_501)).toBe(true)
})
