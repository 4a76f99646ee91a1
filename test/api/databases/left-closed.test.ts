import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { pino } from 'pino'
import { expect, inject, it } from 'vitest'
import { createClosedCheck } from '../../../server/src/features/databases/checks.ts'
import { newEngineName } from '../../../server/src/features/databases/credentials.ts'
import { createExternalEngine } from '../../../server/src/features/databases/postgres/external.ts'
import { createDatabaseReconciler } from '../../../server/src/features/databases/reconciler.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { databaseUrl, openTestDatabase, testDatabase } from '../../harness/database.ts'

const { signal } = new AbortController()

it('a database that a killed server has left closed is opened and announced, but not one that a copy has opened since', async () => {
  await using cleanup = new AsyncDisposableStack()
  const test = cleanup.use(await testDatabase())
  const logger = pino({ level: 'silent' })
  const { db, close } = openDatabase({ connectionString: test.url, max: 4 }, logger)
  cleanup.defer(close)
  const secrets = createSecretBox(randomBytes(32))
  const [account, project, id, snapshot] = [newId('account'), newId('project'), newId('database'), newId('snapshot')]
  const name = newEngineName()
  await test.query(`insert into accounts (id, name, plan) values ($1, 'a', 'free')`, [account])
  await test.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [project, account],
  )
  await test.query(
    `insert into databases (id, role_name, project_id, name, plan, engine, version, host, port, password, status)
     values ($1, $4, $2, 'db', 'free', 'external', '10', '127.0.0.1', 5432, $3, 'provisioning')`,
    [id, project, secrets.encrypt('a password', id), name],
  )
  const url = databaseUrl(inject('cluster'), 'postgres')
  const engine = createExternalEngine({ url, logger })
  cleanup.defer(() => engine.close())
  const reconciler = createDatabaseReconciler({
    ...{ database: db, secrets, engine, plans: shippedPlans, logger },
    announce: async () => undefined,
  })
  cleanup.defer(() => reconciler.removeProject(project, signal))
  const warned: unknown[] = []
  const warning = { warn: (_: unknown, text?: string) => void warned.push(text) } as never
  const check = createClosedCheck({ database: db, engine, reopen: reconciler.reopen, logger: warning })
  await reconciler.reconcile(id, signal)
  const instance = await engine.open({ version: '10', port: 5432 }, signal)
  const enter = async () => {
    const client = new pg.Client({ connectionString: databaseUrl(inject('cluster'), name) })
    client.on('error', () => undefined)
    await client.connect()
    await client.end()
  }
  await enter()

  // The server is killed in the middle of the copy; another server takes the request to delete the snapshot.
  const administrator = cleanup.use(await openTestDatabase(url))
  await administrator.query(`alter database ${pg.escapeIdentifier(name)} allow_connections false`)
  await test.query(
    `insert into snapshots (id, copy_name, database_id, status) values ($1, 'copyofit', $2, 'deleting')`,
    [snapshot, id],
  )
  await reconciler.reconcileSnapshot(snapshot, signal)
  await expect(enter()).rejects.toMatchObject({ code: '55000' })
  expect(await instance.databases.closed([name])).toEqual([name])

  await check(signal)
  await enter()
  expect(await instance.databases.closed([name])).toEqual([])
  expect(warned).toEqual(['a database in use was closed; it is open again'])

  // A copy that has closed the database ends between the check and the opening.
  const copied = createClosedCheck({
    ...{ database: db, logger: warning },
    engine: {
      name: 'external',
      instances: () => new Map([['10', { databases: { closed: async () => [name] } }]]),
    } as never,
    reopen: reconciler.reopen,
  })
  await copied(signal)
  expect(warned).toHaveLength(1)
})
