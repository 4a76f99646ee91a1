import { sql } from 'kysely'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { type AppStore, createAppStore } from '../../../server/src/features/apps/apps.ts'
import type { AppsConfig } from '../../../server/src/platform/config.ts'
import { type Database, openDatabase, type Transaction } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'

const cleanup = new AsyncDisposableStack()
let database: TestDatabase
let db: Database
let projectId: string
/** The ports that another program holds. */
let taken: number[]

beforeAll(async () => {
  database = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: database.url, max: 6 }, pino({ level: 'silent' }))
  cleanup.defer(handle.close)
  db = handle.db
})
afterAll(() => cleanup.disposeAsync())
beforeEach(async () => {
  taken = []
  projectId = await newProject()
})

async function newProject(): Promise<string> {
  const accountId = await createAccountStore({ database: db }).ensureOperator()
  const id = newId('project')
  await database.query(
    "insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'r', 'free', 'active')",
    [id, accountId],
  )
  return id
}

const isPortFree = async (port: number) => !taken.includes(port)
const appsWith = (config: AppsConfig): AppStore => createAppStore({ database: db, isPortFree, config })
const apps = () => appsWith({ mode: 'ports', publicHost: 'localhost', ports: { from: 20_000, to: 29_999 } })
const inTransaction = <T>(run: (transaction: Transaction) => Promise<T>): Promise<T> => db.transaction().execute(run)

const findOrCreate = (name: string, from = apps()) =>
  inTransaction((transaction) => from.findOrCreate(transaction, { id: projectId }, name))

describe('an app', () => {
  it('is created at its first deployment and found by its name afterwards', async () => {
    const first = await findOrCreate('web')
    expect(first).toMatchObject({ isNew: true, app: { name: 'web', address: { port: expect.any(Number) } } })
    expect(await findOrCreate('web')).toEqual({ isNew: false, app: first.app })
    expect(await apps().get(first.app.id)).toEqual(first.app)
    expect(await apps().ofProject(projectId)).toEqual([first.app])
  })

  it('is a separate app in another project', async () => {
    const here = await findOrCreate('web')
    projectId = await newProject()
    const there = await findOrCreate('web')
    expect(there.isNew).toBe(true)
    expect(there.app.id).not.toBe(here.app.id)
    expect(there.app.address).not.toEqual(here.app.address)
  })

  it('is created once when its first deployments come at the same time', async () => {
    const made = await Promise.all(Array.from({ length: 4 }, () => findOrCreate('web')))
    expect(new Set(made.map(({ app }) => app.id)).size).toBe(1)
    expect(made.filter(({ isNew }) => isNew)).toHaveLength(1)
  })
})

describe('the address of a new app', () => {
  /** Ports that no other test of this file gives to its apps. */
  const three: AppsConfig = { mode: 'ports', publicHost: 'localhost', ports: { from: 30_000, to: 30_002 } }

  it('is held neither by another program nor by another app', async () => {
    taken = [30_001]
    const made = [await findOrCreate('a', appsWith(three)), await findOrCreate('b', appsWith(three))]
    const found = made.map(({ app }) => 'port' in app.address && app.address.port)
    expect(found.sort()).toEqual([30_000, 30_002])
    await expect(findOrCreate('c', appsWith(three))).rejects.toMatchObject({
      code: 'invalid_request',
      message: 'The server has no free address left for another app.',
    })
  })

  it('has a number when another app of the project has the same slug', async () => {
    const hostnames: AppsConfig = {
      mode: 'hostnames',
      domain: 'apps.example.com',
      scheme: 'https',
      publicPort: 443,
      gatewayPort: 8080,
    }
    const suffix = `${projectId.slice(-8)}.apps.example.com`
    const [plain, same] = [
      await findOrCreate('web', appsWith(hostnames)),
      await findOrCreate('WEB', appsWith(hostnames)),
    ]
    expect(plain.app.address).toEqual({ hostname: `web-${suffix}` })
    expect(same.app.address).toEqual({ hostname: `web-2-${suffix}` })
  })
})

it('a transaction that locks an app blocks only that app', async () => {
  const { app } = await findOrCreate('locked')
  const { app: free } = await findOrCreate('free')
  const order: string[] = []
  const [holds, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const first = inTransaction(async (transaction) => {
    await apps().lock(transaction, app.id)
    holds.resolve()
    await release.promise
    order.push('first')
  })
  await holds.promise
  const second = inTransaction(async (transaction) => {
    await apps().lock(transaction, app.id)
    order.push('second')
  })
  await inTransaction(async (transaction) => {
    await sql`set local lock_timeout = '10s'`.execute(transaction)
    await apps().lock(transaction, free.id)
  }).finally(release.resolve)
  await Promise.all([first, second])
  expect(order).toEqual(['first', 'second'])
})

it('apps are found by ids, and ids without an app are skipped', async () => {
  const [a, b] = [(await findOrCreate('a')).app, (await findOrCreate('b')).app]
  const found = await apps().byIds(db, [a.id, b.id, a.id, newId('app')])
  expect(found).toEqual(
    new Map([
      [a.id, a],
      [b.id, b],
    ]),
  )
  expect(await apps().byIds(db, [])).toEqual(new Map())
})

describe('the generation of an app', () => {
  it('is incremented by one transaction after another', async () => {
    const { app } = await findOrCreate('web')
    const committing = Promise.withResolvers<void>()
    const counted = Promise.withResolvers<number>()
    const first = inTransaction(async (transaction) => {
      counted.resolve(await apps().nextGeneration(transaction, app.id))
      await committing.promise
    })
    expect(await counted.promise).toBe(1)
    const second = inTransaction((transaction) => apps().nextGeneration(transaction, app.id))
    const waiting = () =>
      database.query(
        'select from pg_locks join pg_stat_activity using (pid) where not granted and datname = current_database()',
      )
    await expect.poll(waiting).not.toEqual([])
    committing.resolve()
    await first
    expect(await second).toBe(2)
  })

  it('is not incremented by a transaction that is rolled back', async () => {
    const { app } = await findOrCreate('web')
    const rolledBack = inTransaction(async (transaction) => {
      expect(await apps().nextGeneration(transaction, app.id)).toBe(1)
      throw new Error('rolled back')
    })
    await expect(rolledBack).rejects.toThrow('rolled back')
    expect(await inTransaction((transaction) => apps().nextGeneration(transaction, app.id))).toBe(1)
  })
})

describe('apps after a change of the server’s address', () => {
  const below = (domain: string) =>
    appsWith({ mode: 'hostnames', domain, scheme: 'https', publicPort: 443, gatewayPort: 8080 })
  const addressesOf = async () =>
    Object.fromEntries((await apps().ofProject(projectId)).map(({ name, address }) => [name, address]))
  beforeEach(() => database.query('delete from apps'))

  it('get host names, then others below another domain, then ports again', async () => {
    for (const name of ['web', 'my app', 'my-app']) await findOrCreate(name)
    const end = projectId.slice(-8)
    expect(await below('one.test').move()).toBe(3)
    const first = await addressesOf()
    expect(first).toEqual({
      web: { hostname: `web-${end}.one.test` },
      'my app': { hostname: `my-app-${end}.one.test` },
      'my-app': { hostname: `my-app-2-${end}.one.test` },
    })
    expect(await below('one.test').move()).toBe(0)
    expect(await below('two.test').move()).toBe(3)
    expect((await addressesOf())['my-app']).toEqual({ hostname: `my-app-2-${end}.two.test` })
    taken = [20_000]
    const few = appsWith({ mode: 'ports', publicHost: 'localhost', ports: { from: 20_000, to: 20_003 } })
    expect(await few.move()).toBe(3)
    const ports = Object.values(await addressesOf()).map((address) => ('port' in address ? address.port : null))
    expect(ports.toSorted()).toEqual([20_001, 20_002, 20_003])
    expect(await few.move()).toBe(0)
    expect(await below('one.test').move()).toBe(3)
    expect(await addressesOf()).toEqual(first)
  })
})
