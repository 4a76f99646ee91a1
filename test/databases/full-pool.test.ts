import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { databaseAnnouncements } from '../../server/src/composition/databases.ts'
import { createExternalEngine } from '../../server/src/databases/external.ts'
import { createDatabaseWork } from '../../server/src/databases/work.ts'
import { type DatabaseHandle, openDatabase } from '../../server/src/platform/database.ts'
import { shippedPlans } from '../../server/src/platform/plans.ts'
import { createSecretBox } from '../../server/src/platform/secrets.ts'
import { createTenancy } from '../../server/src/projects/tenancy.ts'
import { testDatabase } from '../harness/database.ts'
import { postgresByHand } from '../harness/postgres-by-hand.ts'

const logger = pino({ level: 'silent' })
const secrets = createSecretBox(randomBytes(32))
const id = 'db_01jv0000000000000000000000'
const projectId = 'proj_01jv0000000000000000000000'

/** Holds all connections of a pool but one until it is disposed of. */
async function allButOneHeld({ pool }: DatabaseHandle, size: number): Promise<AsyncDisposable> {
  const held = await Promise.all(Array.from({ length: size - 1 }, () => pool.connect()))
  return {
    async [Symbol.asyncDispose]() {
      for (const client of held) client.release()
    },
  }
}

it('a database is provisioned and announced with a single connection of the pool left', async () => {
  await using operator = await postgresByHand()
  await using state = await testDatabase()
  const size = 4
  await using handle = Object.assign(
    openDatabase({ connectionString: state.url, max: size, connectionTimeoutMillis: 5_000 }, logger),
    { [Symbol.asyncDispose]: () => handle.close() },
  )
  await state.query("insert into accounts (id, name, plan) values ('acct_1', 'a', 'free')")
  await state.query(
    "insert into projects (id, account_id, name, region, plan, status) values ($1, 'acct_1', 'p', 'eu', 'free', 'active')",
    [projectId],
  )
  await state.query(
    `insert into databases (id, project_id, name, plan, engine, version, host, port, password, status)
     values ($1, $2, 'db', 'free', 'external', '15', '127.0.0.1', 5432, $3, 'provisioning')`,
    [id, projectId, secrets.encrypt('a password', id)],
  )
  const engine = createExternalEngine({ url: operator.url, logger })
  const work = createDatabaseWork({
    database: handle.db,
    secrets,
    engine,
    plans: shippedPlans,
    retentionMs: 0,
    tierOf: async () => 'free',
    announce: databaseAnnouncements(createTenancy({ database: handle.db })),
    logger,
  })
  {
    await using _ = await allButOneHeld(handle, size)
    await work.settle(id, new AbortController().signal)
  }
  await engine.close()
  expect(await state.query('select status from databases')).toEqual([{ status: 'available' }])
  expect(await state.query('select account_id, type from events')).toEqual([
    { account_id: 'acct_1', type: 'database.available' },
  ])
})
