import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { databaseAnnouncements } from '../../../server/src/features/databases/announce.ts'
import { createDatabaseRequests } from '../../../server/src/features/databases/databases.ts'
import { createExternalEngine } from '../../../server/src/features/databases/postgres/external.ts'
import { createDatabaseReconciler } from '../../../server/src/features/databases/reconciler.ts'
import { createTenancy } from '../../../server/src/features/projects/tenancy.ts'
import { announce } from '../../../server/src/features/webhooks/outbox.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { testDatabase } from '../../harness/database.ts'
import { postgresByHand } from '../../harness/postgres-by-hand.ts'

const logger = pino({ level: 'silent' })
const secrets = createSecretBox(randomBytes(32))
const plans = shippedPlans
const id = 'db_01jv0000000000000000000000'
const project = {
  id: 'proj_01jv0000000000000000000000',
  accountId: 'acct_01jv0000000000000000000000',
  name: 'p',
  region: 'local',
  plan: 'free',
  createdAt: new Date(),
}

/** A project with one database to be provisioned, and a pool with a single free connection. */
async function fullPool() {
  await using cleanup = new AsyncDisposableStack()
  const operator = cleanup.use(await postgresByHand())
  const state = cleanup.use(await testDatabase())
  await state.query("insert into accounts (id, name, plan) values ($1, 'a', 'free')", [project.accountId])
  await state.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [project.id, project.accountId],
  )
  await state.query(
    `insert into databases (id, role_name, project_id, name, plan, engine, version, host, port, password, status)
     values ($1, $1, $2, 'db', 'free', 'external', '15', '127.0.0.1', 5432, $3, 'provisioning')`,
    [id, project.id, secrets.encrypt('a password', id)],
  )
  const open = (max: number) => {
    const handle = openDatabase({ connectionString: state.url, max, connectionTimeoutMillis: 5_000 }, logger)
    cleanup.defer(() => handle.close())
    return handle
  }
  const { db, pool } = open(4)
  const engine = createExternalEngine({ url: operator.url, logger })
  cleanup.defer(() => engine.close())
  for (const client of await Promise.all([1, 2, 3].map(() => pool.connect()))) cleanup.defer(() => client.release())
  const announceDatabase = databaseAnnouncements({ announce, accountOf: createTenancy({ database: db }).accountOf })
  const reconciler = createDatabaseReconciler({
    database: db,
    secrets,
    engine,
    plans,
    announce: announceDatabase,
    logger,
  })
  const owned = cleanup.move()
  return { state, db, engine, reconciler, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const { signal } = new AbortController()
const noApps = { follow: async () => false, haveFollowed: async () => true, leaveMs: 0 }

it('a database is provisioned and announced with a single free connection', async () => {
  await using given = await fullPool()
  await given.reconciler.reconcile(id, signal)
  expect(await given.state.query('select status from databases')).toEqual([{ status: 'available' }])
  expect(await given.state.query('select account_id, type from events')).toEqual([
    { account_id: project.accountId, type: 'database.available' },
  ])
})

it('a password is rotated with a single free connection, and not when the transaction fails', async () => {
  await using given = await fullPool()
  const { state, db, engine, reconciler } = given
  await reconciler.reconcile(id, signal)
  const databases = createDatabaseRequests({
    database: db,
    secrets,
    engine,
    plans,
    retentionMs: 0,
    tierOf: async () => 'free',
    projectsOf: async () => [project.id],
  })
  const before = await state.query('select password, next_password from databases')
  const failed = db.transaction().execute(async (transaction) => {
    await databases.rotatePassword(transaction, project, id)
    throw new Error('not committed')
  })
  await expect(failed).rejects.toThrow('not committed')
  expect(await state.query('select password, next_password from databases')).toEqual(before)

  const rotation = await db.transaction().execute((transaction) => databases.rotatePassword(transaction, project, id))
  const applied = rotation.applied()
  await reconciler.changeLogins(id, noApps, signal)
  await applied
  expect(await state.query('select login, next_password, former_password from databases')).toEqual([
    { login: 'second', next_password: null, former_password: null },
  ])
})
