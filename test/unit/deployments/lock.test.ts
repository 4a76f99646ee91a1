import { expect, it } from 'vitest'
import { createDeploymentLocks } from '../../../server/src/deployments/state/lock.ts'
import type { DeploymentGeneration } from '../../../server/src/deployments/state/tables.ts'

const target = (generation: number): DeploymentGeneration => ({ id: 'dep_1', generation })

/** Resolves with true when a holder for the generation `own` is interrupted by a change that ended `ended`. */
async function isInterruptedBy(ended: number, own: number | null): Promise<boolean> {
  const locks = createDeploymentLocks()
  return locks.run('dep_1', async ({ signal, setGeneration }) => {
    if (own !== null) setGeneration(target(own))
    locks.interrupt(target(ended))
    return signal.aborted
  })
}

it('a holder for a generation that has ended, or for an earlier one, is interrupted', async () => {
  expect(await isInterruptedBy(2, 2)).toBe(true)
  expect(await isInterruptedBy(2, 1)).toBe(true)
})

it('a holder for a later generation is not interrupted', async () => {
  expect(await isInterruptedBy(2, 3)).toBe(false)
})

it('a holder that has named no generation is interrupted', async () => {
  expect(await isInterruptedBy(1, null)).toBe(true)
})

it('a holder that uses the release at rest is interrupted by the next request, not by the end that made it rest', async () => {
  const locks = createDeploymentLocks()
  await locks.run('dep_1', async ({ signal, setGeneration }) => {
    setGeneration({ ...target(2), isAtRest: true })
    locks.interrupt({ ...target(2), isAtRest: true })
    expect(signal.aborted).toBe(false)
    locks.interrupt({ ...target(3), isAtRest: true })
    expect(signal.aborted).toBe(true)
  })
})

it('a holder for another deployment is not interrupted', async () => {
  const locks = createDeploymentLocks()
  const aborted = locks.run('dep_2', async ({ signal }) => {
    locks.interrupt(target(1))
    return signal.aborted
  })
  expect(await aborted).toBe(false)
})
