import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { pino } from 'pino'
import { inject } from 'vitest'
import { type DatabaseHandle, migrate, openDatabase } from '../../server/src/platform/database.ts'
import { migrations } from '../../server/src/platform/migrations/index.ts'
import { templateName } from './global-setup.ts'

export interface TestDatabase extends AsyncDisposable {
  /** The address for `DATABASE_URL`. */
  readonly url: string
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/** Creates a database for one test, cloned from the migrated template, or from PostgreSQL's own without any table. */
export async function testDatabase(template = templateName): Promise<TestDatabase> {
  const cluster = inject('cluster')
  const name = `test_${randomBytes(8).toString('hex')}`
  await administer(`create database ${name} template ${template}`)
  const client = new Client({ ...cluster, database: name })
  await client.connect()
  return {
    url: `postgres://${cluster.user}@localhost:${cluster.port}/${name}?host=${encodeURIComponent(cluster.host)}`,
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      return (await client.query<Row>(text, [...values])).rows
    },
    async [Symbol.asyncDispose]() {
      await client.end()
      await administer(`drop database ${name} with (force)`)
    },
  }
}

/** Creates a database for one test with the schema as it was before a migration. */
export async function databaseBefore(migration: string): Promise<DatabaseHandle & AsyncDisposable> {
  const cluster = inject('cluster')
  const database = `before_${randomBytes(8).toString('hex')}`
  await administer(`create database ${database}`)
  const handle = openDatabase({ ...cluster, database, max: 2 }, pino({ level: 'silent' }))
  await migrate(handle.db, Object.fromEntries(Object.entries(migrations).filter(([name]) => name < migration)))
  return {
    ...handle,
    async [Symbol.asyncDispose]() {
      await handle.close()
      await administer(`drop database ${database} with (force)`)
    },
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
