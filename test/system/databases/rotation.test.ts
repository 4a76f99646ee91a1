import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import type pg from 'pg'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { databaseAnnouncements } from '../../../server/src/features/databases/announce.ts'
import { createDatabaseRequests } from '../../../server/src/features/databases/databases.ts'
import { createExternalEngine } from '../../../server/src/features/databases/postgres/external.ts'
import { createDatabaseReconciler } from '../../../server/src/features/databases/reconciler.ts'
import { createSettingsCheck, type LinkedApps } from '../../../server/src/features/databases/rotation.ts'
import { createTenancy } from '../../../server/src/features/projects/tenancy.ts'
import { announce } from '../../../server/src/features/webhooks/outbox.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { testDatabase } from '../../harness/database.ts'
import { connect, query } from '../../harness/databases.ts'
import { postgresByHand } from '../../harness/postgres-by-hand.ts'

const logger = pino({ level: 'silent' })
const secrets = createSecretBox(randomBytes(32))
const plans = shippedPlans
const { signal } = new AbortController()
const project = {
  id: 'proj_01jv0000000000000000000000',
  accountId: 'acct_01jv0000000000000000000000',
  name: 'p',
  region: 'local',
  plan: 'free',
  createdAt: new Date(),
}

interface Given {
  /** The folder of `initdb` and `postgres`. */
  readonly programs?: string | undefined
  /** False for an administrator without superuser rights. */
  readonly superuser: boolean
}

/** A database in use, and its linked apps. */
async function rotatable({ programs, superuser }: Given) {
  await using cleanup = new AsyncDisposableStack()
  const operator = cleanup.use(await postgresByHand(programs))
  const administrator = new URL(operator.url)
  if (!superuser) {
    await operator.query("create role helper login createdb createrole password 'helper'")
    await operator.query('grant pg_signal_backend to helper')
    administrator.username = 'helper'
    administrator.password = 'helper'
  }
  const state = cleanup.use(await testDatabase())
  await state.query("insert into accounts (id, name, plan) values ($1, 'a', 'free')", [project.accountId])
  await state.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [project.id, project.accountId],
  )
  const { db, close } = openDatabase({ connectionString: state.url, max: 4 }, logger)
  cleanup.defer(close)
  const engine = createExternalEngine({ url: administrator.href, logger })
  cleanup.defer(() => engine.close())
  const announceDatabase = databaseAnnouncements({ announce, accountOf: createTenancy({ database: db }).accountOf })
  /** Simulates another leader, without the memory of an earlier one. */
  const reconciler = () =>
    createDatabaseReconciler({ database: db, secrets, engine, plans, announce: announceDatabase, logger })
  const databases = createDatabaseRequests({
    ...{ database: db, secrets, engine, plans, retentionMs: 3_600_000 },
    tierOf: async () => 'free' as const,
    projectsOf: async () => [project.id],
  })
  const { id, connection_string } = await db
    .transaction()
    .execute((transaction) => databases.create(transaction, project, { name: 'db', plan: 'free' }))
  await reconciler().reconcile(id, signal)

  let haveFollowed = false
  const told: string[] = []
  const linked: LinkedApps = {
    async follow(_, rotated) {
      told.push(rotated.connectionString)
      return true
    },
    haveFollowed: async () => haveFollowed,
    leaveMs: 0,
  }
  const ask = () => db.transaction().execute((transaction) => databases.rotatePassword(transaction, project, id))
  const goOn = () => reconciler().changeLogins(id, linked, signal)
  const owned = cleanup.move()
  return {
    db,
    engine,
    operator,
    owner: new URL(connection_string).username,
    first: connection_string,
    told,
    ask,
    goOn,
    async rotate() {
      const { body, applied } = await ask()
      await Promise.all([applied(), goOn()])
      return body.connection_string
    },
    /** Reports that no instance has an older connection string, so that the previous password ends. */
    async follow() {
      haveFollowed = true
      await goOn()
      await goOn()
      haveFollowed = false
    },
    reconcile: () => reconciler().reconcile(id, signal),
    drop: () => db.transaction().execute((transaction) => databases.delete(transaction, project, id)),
    restore: () => db.transaction().execute((transaction) => databases.restore(transaction, project, id)),
    copySettings: () => createSettingsCheck({ database: db, engine })(signal),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Resolves to `open` for a working connection string, otherwise to the error's code. */
const tried = (address: string) =>
  query(address, 'select 1').then(
    () => 'open',
    (error: { code: string }) => error.code,
  )
const triedAll = (addresses: readonly string[]) => Promise.all(addresses.map(tried))
const [works, ended] = ['open', '28P01']

const system = ['15', '16', '17'].map((major) => `/usr/lib/postgresql/${major}/bin`).find(existsSync)
const shipped: Given = { superuser: true }

describe.each([
  { name: 'the shipped PostgreSQL', ...shipped },
  { name: 'another one, by an administrator who is no superuser', programs: system, superuser: false },
])('a rotation in $name', (server) => {
  it('keeps both passwords valid until the apps have followed, with one owner and one limit for all sessions', async () => {
    await using given = await rotatable(server)
    const { first, owner } = given
    await query(first, 'create table one (n int)')
    await query(first, "alter role current_user set idle_session_timeout = '7min'")
    await query(first, 'alter role current_user set search_path = \'$user\', "a b", public')
    await query(first, "alter role current_user set application_name = 'it''s = mine'")

    const second = await given.rotate()
    expect(given.told).toEqual([second])
    expect(new URL(second).username).not.toBe(owner)
    expect(new URL(second).pathname).toBe(`/${owner}`)
    expect(await triedAll([first, second])).toEqual([works, works])
    // Without a server at that time, the previous password ends all the same.
    const deadline = `select rolvaliduntil between now() and now() + '15min' from pg_roles where rolname = '${owner}'`
    expect(await given.operator.query(deadline)).toEqual([[true]])
    await query(second, 'create table two (n int); insert into one values (1)')
    await query(first, 'insert into two values (1)')
    expect(await query(first, 'select distinct tableowner from pg_tables where schemaname = $$public$$')).toEqual([
      [owner],
    ])
    const settings = `select current_user, current_setting('idle_session_timeout'), current_setting('search_path'),
        current_setting('application_name')`
    const expected = [[owner, '7min', '"$user", "a b", public', "it's = mine"]]
    expect(await query(first, settings)).toEqual(expected)
    expect(await query(second, settings)).toEqual(expected)

    // The plan allows ten.
    await using sessions = new AsyncDisposableStack()
    const open = async (address: string) => sessions.use(await connect(address))
    const client: pg.Client = await open(first)
    for (const address of [first, first, first, first, second, second, second, second, second]) await open(address)
    expect(await triedAll([first, second])).toEqual(['53300', '53300'])

    const over = new Promise((done) => client.once('end', done))
    await given.follow()
    await over
    await sessions.disposeAsync()
    await expect.poll(() => triedAll([first, second])).toEqual([ended, works])
  })

  it('returns to the first role, which owns the second role’s objects, and copies later settings', async () => {
    await using given = await rotatable(server)
    const { first, owner } = given
    const second = await given.rotate()
    await given.follow()
    await query(second, "alter role current_user set idle_session_timeout = '7min'")
    await given.copySettings()
    expect(await query(second, 'show idle_session_timeout')).toEqual([['7min']])
    await query(second, 'set role none; create table one (n int)')
    const third = await given.rotate()
    expect(new URL(third).username).toBe(owner)
    expect(await triedAll([first, second, third])).toEqual([ended, works, works])
    await given.follow()
    expect(await triedAll([first, second, third])).toEqual([ended, ended, works])
    expect(await query(third, 'select tableowner from pg_tables where tablename = $$one$$')).toEqual([[owner]])
    expect(await query(third, 'show idle_session_timeout')).toEqual([['7min']])
  })
})

it('ends the oldest password when it begins before a password has ended', async () => {
  await using given = await rotatable(shipped)
  const second = await given.rotate()
  const third = await given.rotate()
  expect(await triedAll([given.first, second, third])).toEqual([ended, works, works])
  expect(given.told).toEqual([second, third])
})

it('concurrent requests are one rotation, which another leader continues', async () => {
  await using given = await rotatable(shipped)
  const [one, two] = [await given.ask(), await given.ask()]
  expect(await triedAll([given.first, one.body.connection_string])).toEqual([works, ended])
  expect(two.body).toEqual(one.body)
  await Promise.all([given.goOn(), one.applied(), two.applied()])
  await given.goOn()
  expect(given.told).toEqual([one.body.connection_string])
  expect(await triedAll([given.first, one.body.connection_string])).toEqual([works, works])
})

it('the deletion of a database refuses both passwords, and its restoration accepts both again', async () => {
  await using given = await rotatable(shipped)
  const { first, operator } = given
  const second = await given.rotate()
  await given.drop()
  await given.reconcile()
  expect(await triedAll([first, second])).toEqual(['28000', '28000'])
  expect(await operator.query("select rolname from pg_roles where rolname ~ '^[a-z]{26}$' and rolcanlogin")).toEqual([])
  await given.restore()
  await given.reconcile()
  expect(await triedAll([first, second])).toEqual([works, works])
  await given.follow()
  expect(await triedAll([first, second])).toEqual([ended, works])
})
