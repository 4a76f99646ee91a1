import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { pino } from 'pino'
import { inject } from 'vitest'
import { type DatabaseHandle, openDatabase } from '../../server/src/platform/database.ts'
import { count } from './counts.ts'
import { templateName } from './template.ts'

export interface TestDatabase extends AsyncDisposable {
  /** The address for `DATABASE_URL`. */
  readonly url: string
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/** Creates a database for one test, cloned from the migrated template, or from PostgreSQL's empty template. */
export async function testDatabase(template = templateName): Promise<TestDatabase> {
  const cluster = inject('cluster')
  const name = `test_${randomBytes(8).toString('hex')}`
  count('databases')
  await administer(`create database ${name} template ${template} strategy file_copy`)
  const opened = await openTestDatabase(databaseUrl(cluster, name))
  return {
    ...opened,
    async [Symbol.asyncDispose]() {
      await opened[Symbol.asyncDispose]()
      await administer(`drop database ${name} with (force)`)
    },
  }
}

export interface DatabaseWithProject extends AsyncDisposable {
  readonly database: TestDatabase
  readonly handle: DatabaseHandle
}

/** Creates a database with the account `acct_1` and its project `proj_1`, for tests that write rows without a server. */
export async function databaseWithProject(): Promise<DatabaseWithProject> {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: database.url, max: 1 }, pino({ level: 'silent' }))
  cleanup.defer(handle.close)
  await database.query("insert into accounts (id, name, plan) values ('acct_1', 'a', 'free')")
  await database.query(
    `insert into projects (id, account_id, name, region, plan, status)
     values ('proj_1', 'acct_1', 'p', 'local', 'free', 'active')`,
  )
  const owned = cleanup.move()
  return { database, handle, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

export const databaseUrl = (
  cluster: { readonly user: string; readonly port: number; readonly host: string },
  name: string,
): string => `postgres://${cluster.user}@localhost:${cluster.port}/${name}?host=${encodeURIComponent(cluster.host)}`

/** Connects to a database that remains after the test. */
export async function openTestDatabase(url: string): Promise<TestDatabase> {
  const client = new Client({ connectionString: url })
  await client.connect()
  return {
    url,
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      return (await client.query<Row>(text, [...values])).rows
    },
    [Symbol.asyncDispose]: () => client.end(),
  }
}

async function administer(statement: string): Promise<void> {
  const admin = new Client({ ...inject('cluster'), database: 'postgres' })
  await admin.connect()
  try {
    await admin.query(statement)
  } finally {
    await admin.end()
  }
}
