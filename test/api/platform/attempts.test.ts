import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createTotals } from '../../../server/src/platform/account-limits.ts'
import {
  type AttemptLimiter,
  createAttemptLimiter,
  forgetAttempts,
  rememberRefusals,
} from '../../../server/src/platform/attempts.ts'
import { openDatabase, type Transaction } from '../../../server/src/platform/database.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'

let database: TestDatabase
let servers: ReturnType<typeof openDatabase>[]
beforeAll(async () => {
  database = await testDatabase()
  const logger = pino({ level: 'silent' })
  servers = [1, 2, 3].map(() => openDatabase({ connectionString: database.url, max: 3 }, logger))
})
afterAll(async () => {
  for (const server of servers) await server.close()
  await database[Symbol.asyncDispose]()
})

/** The same limit on each server. */
const limitersFor = (name: string, most: number) =>
  servers.map(({ db }) => createAttemptLimiter(db, { name, most, windowMs: 60_000 })) as [
    AttemptLimiter,
    AttemptLimiter,
    AttemptLimiter,
  ]
const endWindows = (name: string) => database.query('update attempts set ends_at = now() where name = $1', [name])

describe('a limit of attempts', () => {
  it('applies across all servers, and counts each key separately', async () => {
    const [one, two] = limitersFor('keys', 2)
    expect([await one.take('a'), await two.take('a'), await two.take('b')]).toEqual([undefined, undefined, undefined])
    for (const limiter of [one, two]) {
      const wait = await limiter.take('a')
      expect(wait).toBeGreaterThan(50)
      expect(wait).toBeLessThanOrEqual(60)
    }
  })

  it('allows exactly that many attempts of a burst on three servers', async () => {
    const limiters = limitersFor('burst', 60)
    const keys = ['a', 'b', 'c', 'd']
    const answers = await Promise.all(
      Array.from({ length: 1200 }, async (_, at) => {
        const key = keys[at % 4] ?? ''
        return { key, wait: await limiters[at % 3]?.take(key) }
      }),
    )
    for (const key of keys) {
      expect(answers.filter((answer) => answer.key === key && answer.wait === undefined)).toHaveLength(60)
    }
  })

  it('does not count refused attempts: a returned attempt allows another', async () => {
    const [one, two] = limitersFor('back', 2)
    for (let i = 0; i < 5; i++) await one.take('a')
    await two.giveBack('a')
    expect(await one.take('a')).toBeUndefined()
    expect(await two.take('a')).toBeGreaterThan(0)
  })

  it('ignores a returned attempt when nothing was counted', async () => {
    const [one] = limitersFor('nothing', 1)
    await one.giveBack('a')
    await one.take('a')
    await one.giveBack('a')
    await one.giveBack('a')
    expect(await one.take('a')).toBeUndefined()
    expect(await one.take('a')).toBeGreaterThan(0)
  })

  it('starts over when the window has ended, and ended windows are removed', async () => {
    const [one, two] = limitersFor('window', 1)
    await one.take('a')
    expect(await two.take('a')).toBeGreaterThan(0)
    await endWindows('window')
    expect(await two.take('a')).toBeUndefined()
    await one.take('b')
    await database.query(`update attempts set ends_at = now() where name = 'window' and key = 'a'`)
    await forgetAttempts(servers[0]?.db as never)
    expect(await database.query(`select key from attempts where name = 'window'`)).toEqual([{ key: 'b' }])
  })

  it('separates two limits', async () => {
    const [one] = limitersFor('one', 1)
    const [other] = limitersFor('other', 1)
    expect([await one.take('a'), await other.take('a')]).toEqual([undefined, undefined])
  })
})

it('remembered refusals cost no statement, and end with their window', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  try {
    let asked = 0
    const answers = [undefined, 60, undefined]
    const limiter = rememberRefusals({ take: async () => answers[asked++] })
    expect(await limiter.take('a')).toBeUndefined()
    expect(await limiter.take('a')).toBe(60)
    vi.advanceTimersByTime(59_500)
    expect(await limiter.take('a')).toBe(1)
    expect(asked).toBe(2)
    vi.advanceTimersByTime(500)
    expect(await limiter.take('a')).toBeUndefined()
    expect(asked).toBe(3)
  } finally {
    vi.useRealTimers()
  }
})

describe('a limit of an account', () => {
  const totals = createTotals({
    plans: { ...shippedPlans, free: { ...shippedPlans.free, account: { projects: 2_000 } } },
    tierOf: async () => 'free',
  })
  const begin = () => Promise.all(servers.map(({ db }) => db.startTransaction().execute()))

  it('allows concurrent creations while the account is far from the limit', async () => {
    const open = await begin()
    for (const each of open) expect(await totals.hasRoom(each, 'far', 'projects', async () => 5)).toBe(true)
    for (const each of open) await each.rollback().execute()
  })

  it('allows the last resource once', async () => {
    const [far, ...near] = await begin()
    if (far === undefined) throw new Error('there is no server')
    let existing = 1
    const hasRoom = (transaction: Transaction) => totals.hasRoom(transaction, 'near', 'projects', async () => existing)
    expect(await hasRoom(far)).toBe(true)
    existing = 1_998
    const asked = near.map(async (each) => {
      const answer = await hasRoom(each)
      if (answer) existing += 1
      await each.commit().execute()
      return answer
    })
    existing += 1
    await far.commit().execute()
    expect((await Promise.all(asked)).toSorted()).toEqual([false, true])
  })
})
