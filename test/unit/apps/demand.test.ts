import { expect, test } from 'vitest'
import { createDemand, keptMs, leastPerSecond } from '../../../server/src/features/apps/metrics/demand.ts'

const seconds = 2

function counted() {
  let nowMs = 0
  const demand = createDemand(() => nowMs)
  demand.count([])
  return {
    isHigh: demand.isHigh,
    pass: (ms: number) => {
      nowMs += ms
    },
    /** Counts requests to two apps, at this total rate per second. */
    count(perSecond: number) {
      nowMs += seconds * 1000
      demand.count([{ requests: perSecond * seconds - 1 }, { requests: 1 }])
    },
  }
}

test('the demand is high when all apps together get enough requests, and for half a minute after that', () => {
  const { isHigh, count, pass } = counted()
  expect(isHigh()).toBe(false)
  count(leastPerSecond - 0.5)
  expect(isHigh()).toBe(false)
  count(leastPerSecond)
  expect(isHigh()).toBe(true)
  count(1)
  expect(isHigh()).toBe(true)
  pass(keptMs - seconds * 1000 - 1)
  expect(isHigh()).toBe(true)
  pass(1)
  expect(isHigh()).toBe(false)
})

test('no request is no demand, however soon the count repeats', () => {
  const demand = createDemand(() => 0)
  demand.count([])
  demand.count([])
  expect(demand.isHigh()).toBe(false)
})

test('requests in an unknown period are no demand', () => {
  const demand = createDemand(() => 0)
  demand.count([{ requests: 100 }])
  expect(demand.isHigh()).toBe(false)
})
