import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { notFound } from '../../../server/src/contract/errors.ts'
import { createDatabaseRequests } from '../../../server/src/features/databases/databases.ts'
import type { Engine } from '../../../server/src/features/databases/postgres/engine.ts'
import { createDatabaseReconciler } from '../../../server/src/features/databases/reconciler.ts'
import { createSnapshots } from '../../../server/src/features/databases/snapshots.ts'
import { type DatabaseHandle, openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'
import { inTheMiddle } from '../../harness/in-the-middle.ts'

let test: TestDatabase
let handle: DatabaseHandle
const secrets = createSecretBox(randomBytes(32))
const tenant = {
  ...{ id: newId('project'), accountId: newId('account'), name: 'p', region: 'local', plan: 'free' },
  createdAt: new Date(),
}
beforeAll(async () => {
  test = await testDatabase()
  handle = openDatabase({ connectionString: test.url, max: 4 }, pino({ level: 'silent' }))
  await test.query(`insert into accounts (id, name, plan) values ($1, 'a', 'free')`, [tenant.accountId])
  await test.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [tenant.id, tenant.accountId],
  )
})
afterAll(async () => {
  await handle.close()
  await test[Symbol.asyncDispose]()
})
beforeEach(async () => {
  await test.query('delete from snapshots')
  await test.query('delete from databases')
})

const quota = {
  plans: shippedPlans,
  tierOf: async () => 'free' as const,
  projectsOf: async () => [tenant.id],
}

/** Adds the row of an available database, or of a database that is deleted in an hour. */
async function row(status: string): Promise<string> {
  const id = newId('database')
  await test.query(
    `insert into databases (id, role_name, project_id, name, plan, engine, version, host, port, password, status, available_at, drop_at)
     values ($1, $1, $2, 'db', 'free', 'external', '15', '127.0.0.1', 5432, $3, $4, now(),
       case when $4 = 'deleting' then now() + interval '1 hour' end)`,
    [id, tenant.id, secrets.encrypt('a password', id), status],
  )
  return id
}

async function snapshotOf(databaseId: string): Promise<string> {
  const id = newId('snapshot')
  await test.query(`insert into snapshots (id, copy_name, database_id, status) values ($1, $1, $2, 'available')`, [
    id,
    databaseId,
  ])
  return id
}

const outcome = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: Error) => error.message,
  )

it('a database during its restoration is not removed as surplus by the deletion of another', async () => {
  const most = shippedPlans.free.databases
  // The maximal number of restorable databases: the deletion of one more removes the first.
  const [first = ''] = await Promise.all(Array.from({ length: most }, () => row('deleting')))
  const used = await row('available')
  await test.query(`update databases set drop_at = drop_at - interval '1 minute' where id = $1`, [first])
  const databases = createDatabaseRequests({
    ...{ ...quota, database: handle.db, secrets, retentionMs: 3_600_000 },
    engine: { name: 'external' } as Engine,
  })
  const settled = await inTheMiddle(
    test,
    // The restoration of the first one, which has not committed.
    async (own) => {
      await own.query(`select from databases where id = $1 for update`, [first])
      await own.query(`update databases set status = 'provisioning', drop_at = null where id = $1`, [first])
    },
    () => [outcome(handle.db.transaction().execute((transaction) => databases.delete(transaction, tenant, used)))],
  )
  expect(settled).toEqual(['done'])
  expect(await test.query('select status from databases where id = any($1) order by status', [[first, used]])).toEqual([
    { status: 'deleting' },
    { status: 'provisioning' },
  ])
})

it('a snapshot during its deletion is not restored', async () => {
  const id = await row('available')
  const snapshot = await snapshotOf(id)
  const snapshots = createSnapshots({ ...quota, database: handle.db })
  const settled = await inTheMiddle(
    test,
    (own) => own.query(`update snapshots set status = 'deleting' where id = $1`, [snapshot]),
    () => [
      outcome(handle.db.transaction().execute((transaction) => snapshots.restore(transaction, tenant, id, snapshot))),
    ],
  )
  expect(settled).toEqual([notFound().message])
  expect(await test.query('select status from databases')).toEqual([{ status: 'available' }])
})

it('the snapshot from which a database is being created outlives the removal of its database', async () => {
  const id = await row('deleting')
  const snapshot = await snapshotOf(id)
  await test.query(`update databases set drop_at = now() - interval '1 minute'`)
  const dropped: (readonly string[])[] = []
  const instance = { databases: { archive: async () => undefined, drop: async (ids: string[]) => dropped.push(ids) } }
  const reconciler = createDatabaseReconciler({
    ...{ database: handle.db, secrets, plans: shippedPlans, logger: pino({ level: 'silent' }) },
    engine: { name: 'external', exists: async () => true, open: async () => instance } as unknown as Engine,
    announce: async () => undefined,
  })
  const settled = await inTheMiddle(
    test,
    async (own) => {
      await own.query('select from snapshots where id = $1 for update', [snapshot])
      await own.query(
        `insert into databases (id, role_name, project_id, name, plan, engine, version, host, port, password, status, source_snapshot_id)
         values ($1, $1, $2, 'new', 'free', 'external', '15', '127.0.0.1', 5432, '', 'provisioning', $3)`,
        [newId('database'), tenant.id, snapshot],
      )
    },
    () => [outcome(reconciler.drop(id, new AbortController().signal))],
  )
  expect([settled, dropped]).toEqual([['done'], []])
})
