import { describe, expect, it } from 'vitest'
import { createDeploymentLocks } from '../../../server/src/deployments/lock.ts'
import type { DeploymentGeneration } from '../../../server/src/deployments/tables.ts'

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

describe('those that share a lock', () => {
  it('work one after the other, and what goes on meanwhile holds up none of them', async () => {
    const locks = createDeploymentLocks()
    const events: string[] = []
    const start = Promise.withResolvers<void>()
    const share = (name: string, going = Promise.resolve()) =>
      locks.share('dep_1', async ({ meanwhile }) => {
        events.push(`${name} begins`)
        await new Promise((resolve) => setImmediate(resolve))
        void meanwhile(going)
        events.push(`${name} ends`)
      })
    await Promise.all([share('first', start.promise), share('second')])
    expect(events).toEqual(['first begins', 'first ends', 'second begins', 'second ends'])
    expect([locks.isHeld('dep_1'), locks.isTaken('dep_1')]).toEqual([true, false])
    start.resolve()
    await expect.poll(() => locks.isHeld('dep_1')).toBe(false)
  })

  it('keep it from others until nothing goes on, and later ones wait for those others', async () => {
    const locks = createDeploymentLocks()
    const events: string[] = []
    const going = Promise.withResolvers<void>()
    await locks.share('dep_1', async ({ meanwhile, signal }) => {
      signal.addEventListener('abort', () => events.push('interrupted'))
      void meanwhile(going.promise.then(() => events.push('over')))
    })
    const job = locks.run('dep_1', async () => void events.push('job'))
    const later = locks.share('dep_1', async () => void events.push('later'))
    expect(locks.isTaken('dep_1')).toBe(true)
    locks.interrupt(target(1))
    going.resolve()
    await Promise.all([job, later])
    expect(events).toEqual(['interrupted', 'over', 'job', 'later'])
  })

  it('give it back when their work fails, and when what goes on does', async () => {
    const locks = createDeploymentLocks()
    const failing = locks.share('dep_1', () => Promise.reject(new Error('broken')))
    await expect(failing).rejects.toThrow('broken')
    const { going } = await locks.share('dep_1', async ({ meanwhile }) => ({
      going: meanwhile(Promise.reject(new Error('broken later'))),
    }))
    await expect(going).rejects.toThrow('broken later')
    await locks.run('dep_1', async () => undefined)
    expect(locks.isHeld('dep_1')).toBe(false)
  })
})
