import { expect, it } from 'vitest'
import { kindOf, shortest } from '../../long/histories/histories.ts'
import { faults, type Plan, planOf } from '../../long/histories/plan.ts'

const size = { operations: 300, faults: 30 }

it('a seed always makes the same plan, of the requested size, with faults of all kinds', () => {
  const plan = planOf(7, size)
  expect(planOf(7, size)).toEqual(plan)
  expect(planOf(8, size)).not.toEqual(plan)
  expect(plan.steps.flatMap(({ together }) => together).length).toBeGreaterThanOrEqual(size.operations)
  expect(plan.steps.filter(({ fault }) => fault !== undefined)).toHaveLength(size.faults)
  const seen = Array.from({ length: 10 }, (_, seed) => planOf(seed, size).steps.map(({ fault }) => fault?.kind)).flat()
  expect(faults.filter((kind) => !seen.includes(kind))).toEqual([])
})

const steps = Array.from({ length: 40 }, (_, name) => ({
  together: [{ do: 'upload', name } as const],
  pauseMs: 0,
}))
const namesOf = ({ steps }: Plan) =>
  steps.flatMap(({ together }) => together.map((one) => ('name' in one ? one.name : -1)))

it('a failing plan becomes as short as possible', async () => {
  const fails = async (plan: Plan) => namesOf(plan).includes(13) && namesOf(plan).includes(31)
  expect(namesOf(await shortest({ seed: 1, servers: 1, steps }, fails, () => false))).toEqual([13, 31])
})

it('unneeded faults and operations of a failing plan are removed, too, in few attempts', async () => {
  const { steps, ...plan } = planOf(3, { operations: 200, faults: 4 })
  const [first] = steps.filter(({ fault }) => fault !== undefined)
  let attempts = 0
  const fails = async ({ steps }: Plan) => {
    attempts += 1
    return steps.some(({ fault, together }) => fault === first?.fault && together.includes(first?.together[0] as never))
  }
  const found = await shortest({ ...plan, steps }, fails, () => false)
  expect(found.steps).toEqual([{ ...first, together: first?.together.slice(0, 1) }])
  expect(attempts).toBeLessThan(40)
})

it('a plan stays unchanged after the time limit', async () => {
  expect(
    await shortest(
      { seed: 1, servers: 1, steps },
      async () => true,
      () => true,
    ),
  ).toEqual({ seed: 1, servers: 1, steps })
})

it('problems of one kind differ only in ids, numbers and values', () => {
  expect(kindOf('step 3: POST /projects/proj_01m8/webhooks got 500 without a fault')).toBe(
    kindOf('step 12: POST /projects/proj_02k7/webhooks got 500 without a fault'),
  )
  expect(kindOf('/webhooks/wh_1 has the rate 5, not 7')).not.toBe(kindOf('/webhooks/wh_1 has the url "a", not "b"'))
})
