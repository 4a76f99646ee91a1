import { expect, it } from 'vitest'
import {
  type DesiredProcess,
  numbersOf,
  withinPlan,
  withLimits,
} from '../../../../server/src/features/deployments/process-types.ts'
import { releaseOfRow as release } from '../../../harness/deployment-row.ts'

it('gives a process type whole bytes, and never more than the plan allows', () => {
  const bytes = (memoryMb: number) => withLimits(release, { memoryMb }).limits.memoryBytes
  expect([128, 64.1, 64.01].map(bytes)).toEqual([128_000_000, 64_099_999, 64_010_000])
  expect(bytes(1e300)).toBe(release.limits.memoryBytes)
  expect(withLimits(release, {}).limits).toEqual(release.limits)
})

const process = (type: string, instances: number): DesiredProcess => ({ type, instances, command: { argv: ['true'] } })

it('never exceeds the plan’s number of instances, and starts web instances first', () => {
  const together = (most: number) =>
    withinPlan([process('web', 3), process('a', 2), process('b', 1)], most).map(({ instances }) => instances)
  expect([10, 6, 5, 4, 2, 1].map(together)).toEqual([
    [3, 2, 1],
    [3, 2, 1],
    [3, 2, 0],
    [3, 1, 0],
    [2, 0, 0],
    [1, 0, 0],
  ])
})

it('gives the other instances the numbers that the first web instance does not have', () => {
  const first = (name?: string) => (name === undefined ? {} : { process: name })
  expect(numbersOf(process('web', 3), null)).toEqual([2, 3])
  expect(numbersOf(process('web', 3), first())).toEqual([2, 3])
  expect(numbersOf(process('web', 3), first('web.2'))).toEqual([1, 3])
  expect(numbersOf(process('web', 2), first('web.3'))).toEqual([1])
  expect(numbersOf(process('web', 1), first('web.3'))).toEqual([])
  expect(numbersOf(process('worker', 2), first('web.1'))).toEqual([1, 2])
})
