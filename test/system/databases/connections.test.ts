import fc from 'fast-check'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { createConnectionCheck } from '../../../server/src/features/databases/checks.ts'
import { leastShare, limitChanges } from '../../../server/src/features/databases/limits.ts'
import { createInstance } from '../../../server/src/features/databases/postgres/engine.ts'
import { connect } from '../../harness/databases.ts'
import { postgresByHand } from '../../harness/postgres-by-hand.ts'

const use = fc.record({ sessions: fc.nat(100), limit: fc.constant(100) })
const uses = fc.array(use, { maxLength: 60 }).map((all) => all.map((each, at) => ({ name: `db_${at}`, ...each })))

it('databases with the most sessions are reduced to the same number, so that connections stay free for the others', () => {
  fc.assert(
    fc.property(uses, (given) => {
      const { lower, raise } = limitChanges(given, new Map(), 450)
      const limits = new Map(lower.map(({ name, limit }) => [name, limit]))
      const after = given.map(({ name, sessions }) => Math.min(sessions, limits.get(name) ?? sessions))
      expect(after.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(450)
      expect(new Set(limits.values()).size).toBeLessThanOrEqual(1)
      for (const { name, sessions } of given) {
        expect(limits.get(name) ?? leastShare).toBeGreaterThanOrEqual(leastShare)
        for (const limit of limits.values()) expect(sessions > limit).toBe(limits.has(name))
      }
      expect(raise).toEqual([])
    }),
  )
})

it('databases get their limits back when enough connections are free for all of them', () => {
  fc.assert(
    fc.property(uses, (given) => {
      const { lower, raise } = limitChanges(given, new Map(given.map(({ name }) => [name, 100])), 450)
      const raised = new Map(raise.map(({ name, limit }) => [name, limit]))
      const most = given.map(({ name, sessions }) => raised.get(name) ?? sessions)
      if (lower.length === 0) expect(most.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(450)
      else expect(raise).toEqual([])
    }),
  )
  expect(limitChanges([{ name: 'db', sessions: 0, limit: 3 }], new Map([['db', 10]]), 64).raise).toEqual([
    { name: 'db', limit: 10 },
  ])
})

const [greedy, modest] = ['abcdefghijklmnopqrstuvwxyz', 'bcdefghijklmnopqrstuvwxyza'] as const
const { signal } = new AbortController()

it('a database that uses up the connections loses some to others, idle ones first, until enough are free again', async () => {
  await using cleanup = new AsyncDisposableStack()
  const operator = cleanup.use(await postgresByHand())
  for (const name of [greedy, modest]) {
    await operator.query(`create role ${name} login password 'password' connection limit 95`)
    await operator.query(`create database ${name} owner ${name} template template0`)
  }
  const instance = createInstance({ connectionString: operator.url }, () => undefined)
  cleanup.defer(() => instance.close())
  const check = createConnectionCheck({
    engine: { instances: () => new Map([['18', instance]]) },
    idsOf: async (names) => names,
    logger: pino({ level: 'silent' }),
  })
  const open = (name: string) => {
    const address = new URL(operator.url)
    address.username = name
    address.password = 'password'
    address.pathname = `/${name}`
    return connect(address.href)
  }
  const limits = () =>
    operator.query("select rolconnlimit from pg_roles where rolname ~ '^[a-z]{26}$' order by rolname")

  const first = await open(greedy)
  await first.query('begin')
  const others = await Promise.all(Array.from({ length: 79 }, () => open(greedy)))
  const few = await Promise.all([open(modest), open(modest)])
  await check(signal)
  // Two thirds of 97, minus the two of the other database.
  expect(await limits()).toEqual([[62], [95]])
  const sessions = async () =>
    (await instance.statistics.connectionUse([greedy])).uses.find(({ name }) => name === greedy)?.sessions
  await expect.poll(sessions).toBe(62)
  await expect(open(greedy)).rejects.toMatchObject({ code: '53300' })
  for (const session of [first, ...few]) await session.query('select 1')
  const more = await open(modest)

  await Promise.all([first, ...others, ...few, more].map((session) => session.end()))
  await expect.poll(sessions).toBe(0)
  await check(signal)
  expect(await limits()).toEqual([[95], [95]])
})

it('limits that an earlier server lowered return to the plan’s', async () => {
  await using operator = await postgresByHand()
  await operator.query(`create role ${greedy} login connection limit 3`)
  const instance = createInstance({ connectionString: operator.url }, () => undefined)
  await instance.roles.ensureConnections(greedy, 10, signal)
  await instance.close()
  expect(await operator.query(`select rolconnlimit from pg_roles where rolname = '${greedy}'`)).toEqual([[10]])
})
