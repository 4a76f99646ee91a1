import { describe, expect, it } from 'vitest'
import { createDeploymentLocks } from '../../../server/src/features/deployments/lock.ts'
import type { DeploymentGeneration } from '../../../server/src/features/deployments/tables.ts'

const target = (generation: number): DeploymentGeneration => ({ id: 'dep_1', generation })

/** Resolves with true when a change that ended `ended` interrupts a holder for the generation `own`. */
async function isInterruptedBy(ended: number, own: number | null): Promise<boolean> {
  const locks = createDeploymentLocks()
  return locks.run('dep_1', async ({ signal, setGeneration }) => {
    if (own !== null) setGeneration(target(own))
    locks.interrupt(target(ended))
    return signal.aborted
  })
}

it('interrupts a holder for a generation that has ended, or for an earlier generation', async () => {
  expect(await isInterruptedBy(2, 2)).toBe(true)
  expect(await isInterruptedBy(2, 1)).toBe(true)
})

it('does not interrupt a holder for a later generation', async () => {
  expect(await isInterruptedBy(2, 3)).toBe(false)
})

it('interrupts a holder without a generation', async () => {
  expect(await isInterruptedBy(1, null)).toBe(true)
})

it('interrupts a holder of a stopped release at the next request, not at the stop itself', async () => {
  const locks = createDeploymentLocks()
  await locks.run('dep_1', async ({ signal, setGeneration }) => {
    setGeneration({ ...target(2), hasEnded: true })
    locks.interrupt({ ...target(2), hasEnded: true })
    expect(signal.aborted).toBe(false)
    locks.interrupt({ ...target(3), hasEnded: true })
    expect(signal.aborted).toBe(true)
  })
})

it('does not interrupt a holder for another deployment', async () => {
  const locks = createDeploymentLocks()
  const aborted = locks.run('dep_2', async ({ signal }) => {
    locks.interrupt(target(1))
    return signal.aborted
  })
  expect(await aborted).toBe(false)
})

describe('holders that share a lock', () => {
  it('run one after the other, and their background work delays no holder', async () => {
    const locks = createDeploymentLocks()
    const events: string[] = []
    const start = Promise.withResolvers<void>()
    const share = (name: string, going = Promise.resolve()) =>
      locks.share('dep_1', async ({ holdUntil }) => {
        events.push(`${name} begins`)
        await new Promise((resolve) => setImmediate(resolve))
        void holdUntil(going)
        events.push(`${name} ends`)
      })
    await Promise.all([share('first', start.promise), share('second')])
    expect(events).toEqual(['first begins', 'first ends', 'second begins', 'second ends'])
    expect([locks.isHeld('dep_1'), locks.isTaken('dep_1')]).toEqual([true, false])
    start.resolve()
    await expect.poll(() => locks.isHeld('dep_1')).toBe(false)
  })

  it('keep the lock until all background work ends, and later sharers wait for other holders', async () => {
    const locks = createDeploymentLocks()
    const events: string[] = []
    const going = Promise.withResolvers<void>()
    await locks.share('dep_1', async ({ holdUntil, signal }) => {
      signal.addEventListener('abort', () => events.push('interrupted'))
      void holdUntil(going.promise.then(() => events.push('over')))
    })
    const job = locks.run('dep_1', async () => void events.push('job'))
    const later = locks.share('dep_1', async () => void events.push('later'))
    expect(locks.isTaken('dep_1')).toBe(true)
    locks.interrupt(target(1))
    going.resolve()
    await Promise.all([job, later])
    expect(events).toEqual(['interrupted', 'over', 'job', 'later'])
  })

  it('return the lock when their work fails, and when their background work fails', async () => {
    const locks = createDeploymentLocks()
    const failing = locks.share('dep_1', () => Promise.reject(new Error('broken')))
    await expect(failing).rejects.toThrow('broken')
    const { going } = await locks.share('dep_1', async ({ holdUntil }) => ({
      going: holdUntil(Promise.reject(new Error('broken later'))),
    }))
    await expect(going).rejects.toThrow('broken later')
    await locks.run('dep_1', async () => undefined)
    expect(locks.isHeld('dep_1')).toBe(false)
  })
})
