import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  type ConnectionBudget,
  checkedBudget,
  connectionBudget,
  connectionsOf,
} from '../../../server/src/platform/database/connection-budget.ts'
import { initdbArguments } from '../../../server/src/platform/postgres/initialise.ts'

it('requests use their whole pool', () => {
  const { poolSize, requests, reservedForReads } = connectionBudget.requests
  expect(requests.concurrency + reservedForReads).toBe(poolSize)
})

it('three servers fit into the embedded cluster', () => {
  const [, most] = /--set=max_connections=(\d+)/.exec(initdbArguments('linux', 18).join(' ')) ?? []
  // Three servers with 16 connections for requests and 5 outside the pools, the leader's 20, and 10 for commands.
  expect(connectionsOf(3)).toBe(3 * 21 + 20 + 10)
  // PostgreSQL reserves 3 for superusers. The servers connect as superusers, so these connections remain for an
  // operator.
  expect(connectionsOf(3)).toBeLessThanOrEqual(Number(most) - 3)
})

it('a pool that is too small is refused with the numbers', () => {
  expect(() => checkedBudget({ ...connectionBudget.requests, poolSize: 15 })).toThrow(
    '0 listeners of job lanes, 10 transactions of requests and 6 reserved for reads need 16 connections, and the pool has 15',
  )
})

it('jobs that hold a second connection are refused, because the pool could deadlock', () => {
  const { leader } = connectionBudget
  const lanes = { ...leader.lanes, databases: { concurrency: 16, connectionsEach: 2 } }
  expect(() => checkedBudget({ ...leader, lanes })).toThrow(
    '16 connections that may be held while another one is waited for (databases 16)',
  )
})

const use = fc.record({ concurrency: fc.integer({ min: 1, max: 4 }), connectionsEach: fc.integer({ min: 1, max: 3 }) })
const budgets: fc.Arbitrary<ConnectionBudget> = fc.record({
  poolSize: fc.integer({ min: 1, max: 20 }),
  requests: use,
  reservedForReads: fc.integer({ min: 0, max: 3 }),
  lanes: fc.dictionary(fc.constantFrom('a', 'b', 'c'), use),
})

function fits(budget: ConnectionBudget): boolean {
  try {
    return checkedBudget(budget) === budget
  } catch {
    return false
  }
}

it('work within an accepted budget never deadlocks, in any order of its connections', () => {
  fc.assert(
    fc.property(budgets, fc.infiniteStream(fc.nat()), (budget, choices) => {
      fc.pre(fits(budget))
      const lanes = Object.values(budget.lanes)
      let free = budget.poolSize - lanes.length
      const workers = [budget.requests, ...lanes].flatMap(({ concurrency, connectionsEach }) =>
        Array.from({ length: concurrency }, () => ({ needs: connectionsEach, holds: 0 })),
      )
      // Work with all of its connections ends and returns them; the rest takes one more in a random order.
      while (workers.length > 0) {
        const ended = workers.findIndex(({ needs, holds }) => needs === holds)
        if (ended >= 0) {
          free += workers.splice(ended, 1)[0]?.holds ?? 0
          continue
        }
        expect(free).toBeGreaterThan(0)
        const worker = workers[choices.next().value % workers.length]
        if (worker !== undefined) worker.holds += 1
        free -= 1
      }
    }),
  )
})
