import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import type { Engine } from '../../../server/src/databases/engines/engine.ts'
import { createDatabases } from '../../../server/src/databases/operations/databases.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { createSecretBox } from '../../../server/src/platform/secrets/secret-box.ts'
import { testDatabase } from '../../harness/database.ts'
import { inTheMiddle } from '../../harness/in-the-middle.ts'

it('a database that is restored is not removed as one too many by the deletion of another', async () => {
  await using test = await testDatabase()
  const { db, close } = openDatabase({ connectionString: test.url, max: 4 }, pino({ level: 'silent' }))
  const secrets = createSecretBox(randomBytes(32))
  const [account, project] = [newId('account'), newId('project')]
  await test.query(`insert into accounts (id, name, plan) values ($1, 'a', 'free')`, [account])
  await test.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [project, account],
  )
  const most = shippedPlans.free.databases
  const row = async (status: string) => {
    const id = newId('database')
    await test.query(
      `insert into databases (id, project_id, name, plan, engine, version, host, port, password, status, available_at, drop_at)
       values ($1, $2, 'db', 'free', 'external', '15', '127.0.0.1', 5432, $3, $4, now(),
         case when $4 = 'deleting' then now() + interval '1 hour' end)`,
      [id, project, secrets.encrypt('a password', id), status],
    )
    return id
  }
  // As many as may wait for their restoration: the deletion of one more removes the first.
  const [first = ''] = await Promise.all(Array.from({ length: most }, () => row('deleting')))
  const used = await row('available')
  await test.query(`update databases set drop_at = drop_at - interval '1 minute' where id = $1`, [first])
  const databases = createDatabases({
    ...{ database: db, secrets, plans: shippedPlans, retentionMs: 3_600_000 },
    engine: { name: 'external' } as Engine,
    tierOf: async () => 'free',
    projectsOf: async () => [project],
  })
  const tenant = { id: project, accountId: account, name: 'p', region: 'local', plan: 'free', createdAt: new Date() }
  const settled = await inTheMiddle(
    test,
    // The restoration of the first one, which has not committed.
    async (own) => {
      await own.query(`select from databases where id = $1 for update`, [first])
      await own.query(`update databases set status = 'provisioning', drop_at = null where id = $1`, [first])
    },
    () => [
      db
        .transaction()
        .execute((transaction) => databases.delete(transaction, tenant, used))
        .then(
          () => 'deleted',
          (error: Error) => error.message,
        ),
    ],
  )
  expect(settled).toEqual(['deleted'])
  expect(await test.query('select status from databases where id = any($1) order by status', [[first, used]])).toEqual([
    { status: 'deleting' },
    { status: 'provisioning' },
  ])
  await close()
})
