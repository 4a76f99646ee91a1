import { pino } from 'pino'
import { expect, it } from 'vitest'
import { workOn } from '../../server/src/deployments/job/job.ts'
import type { DeployParts } from '../../server/src/deployments/job/parts.ts'
import { createWork, type Turn } from '../../server/src/deployments/state/lock.ts'
import type { Wish } from '../../server/src/deployments/state/store.ts'

const wish = (intent: number): Wish => ({ id: 'dep_1', intent })

/** Whether work is interrupted by the end of the wish `ended`, `worksFor` being the one that it is for. */
async function isInterruptedBy(ended: number, worksFor: number | null): Promise<boolean> {
  const work = createWork()
  return work.run('dep_1', async (turn: Turn) => {
    if (worksFor !== null) turn.worksFor(wish(worksFor))
    work.interrupt(wish(ended))
    return turn.signal.aborted
  })
}

it('interrupts the work for a wish that is over, and for earlier ones', async () => {
  expect(await isInterruptedBy(2, 2)).toBe(true)
  expect(await isInterruptedBy(2, 1)).toBe(true)
})

it('does not interrupt the work for a later wish', async () => {
  expect(await isInterruptedBy(2, 3)).toBe(false)
})

it('interrupts work that is for no wish in particular', async () => {
  expect(await isInterruptedBy(1, null)).toBe(true)
})

it('does not interrupt the work on another deployment', async () => {
  const work = createWork()
  const aborted = work.run('dep_2', async ({ signal }) => {
    work.interrupt(wish(1))
    return signal.aborted
  })
  expect(await aborted).toBe(false)
})

it('ends nothing that an earlier wish has left when it is interrupted before it has begun', async () => {
  const work = createWork()
  const happened: string[] = []
  const parts = {
    work,
    apps: { get: async () => ({ number: 1 }) },
    releases: { of: async () => ({}) },
    runner: { halt: async () => happened.push('halted'), remove: async () => happened.push('removed') },
    store: {
      begin: async () => {
        happened.push('begun')
        if (happened.length > 1) return undefined
        // The job may begin before the request that has added it says that the earlier wish is over.
        work.interrupt(wish(1))
        return { ...wish(2), retained: true }
      },
      giveBack: async () => happened.push('given back'),
    },
  }
  await workOn(parts as unknown as DeployParts, 'dep_1', new AbortController().signal)
  expect(happened).toEqual(['begun', 'given back', 'begun'])
})

/** What becomes of a deployment whose work meets an error of the server, as its `attempts`th try. */
async function afterServersError(row: { attempts: number; git_token: Buffer | null }): Promise<string> {
  const lost = new Error('the connection to the database was lost')
  let failure: unknown
  const parts = {
    work: createWork(),
    apps: { get: async () => ({ number: 1 }) },
    logger: pino({ level: 'silent' }),
    releases: { of: () => Promise.reject(lost), secretsOf: () => [] },
    urlOf: () => '',
    announce: async () => undefined,
    database: { transaction: () => ({ execute: (work: (trx: unknown) => unknown) => work(undefined) }) },
    store: {
      begin: async () => ({ ...wish(1), ...row, retained: true }),
      fail: async (_: unknown, __: unknown, reason: unknown) => {
        failure = reason
        return false
      },
    },
  }
  const ended = workOn(parts as unknown as DeployParts, 'dep_1', new AbortController().signal)
  return ended.then(
    () => (failure as { code: string }).code,
    (error: Error) => error.message,
  )
}

it('leaves a deployment to another try of its job when the server itself has failed, once', async () => {
  expect(await afterServersError({ attempts: 1, git_token: null })).toBe('the connection to the database was lost')
  expect(await afterServersError({ attempts: 2, git_token: null })).toBe('server_error')
})

it('does not try again what needs a token that may have been used up', async () => {
  expect(await afterServersError({ attempts: 1, git_token: Buffer.of(1) })).toBe('server_error')
})
