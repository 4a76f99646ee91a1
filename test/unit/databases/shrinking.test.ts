import { expect, it } from 'vitest'
import { databaseLimits, nextShrinking, type Shrinking } from '../../../server/src/features/databases/limits.ts'

const limits = databaseLimits({ database_gb: 1, memory_mb: 512 })
const minute = 60_000

/** Returns the states after each measurement: a size in 10⁶ bytes at a time in minutes. */
function follow(looks: readonly (readonly [at: number, megabytes: number])[]): Shrinking[] {
  let state: Shrinking | undefined
  return looks.map(([at, megabytes]) => {
    state = nextShrinking(state, megabytes * 1e6, limits, at * minute)
    return state
  })
}
const lockouts = (states: readonly Shrinking[]) => states.map(({ closedUntil }) => closedUntil && closedUntil / minute)

it('an oversized database stays open while it shrinks or writes a little', () => {
  expect(
    lockouts(
      follow([
        [0, 1600],
        [1, 1609],
        [2, 1600],
        [3, 1200],
        [4, 1205],
      ]),
    ),
  ).toEqual([null, null, null, null, null])
})

it('freed space must not be filled again', () => {
  expect(
    lockouts(
      follow([
        [0, 2000],
        [1, 1600],
        [2, 1700],
      ]),
    ),
  ).toEqual([null, null, 7])
})

it('each lockout is twice as long as the previous one, up to a day', () => {
  const states = follow([
    [0, 1600],
    [1, 1700],
    [2, 1700],
    [6, 1700],
    [7, 1800],
    [16, 1800],
    [17, 1800],
    [18, 1900],
  ])
  expect(lockouts(states)).toEqual([null, 6, 6, null, 17, 17, null, 38])
  let state = states.at(-1)
  for (let megabytes = 2000; megabytes < 4000; megabytes += 50) {
    const at = state?.closedUntil ?? 0
    state = nextShrinking(state, megabytes * 1e6, limits, at)
    state = nextShrinking(state, (megabytes + 50) * 1e6, limits, at)
  }
  expect(state?.nextLockoutMs).toBe(24 * 60 * minute)
})
