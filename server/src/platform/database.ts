import { Kysely, type Transaction as KyselyTransaction, PostgresDialect, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { Pool, type PoolConfig } from 'pg'
import type { Logger } from './logger.ts'
import { type Migrations, oldestServerAfter, pendingMigrations } from './migrations/schema.ts'

/** The database without table types. A feature adds its own with `db.withTables<ItsTables>()`. */
// biome-ignore lint/complexity/noBannedTypes: Kysely's own notation for "no tables".
export type Database = Kysely<{}>
// biome-ignore lint/complexity/noBannedTypes: as above.
export type Transaction = KyselyTransaction<{}>

export interface DatabaseHandle {
  readonly db: Database
  readonly pool: Pool
  close(): Promise<void>
}

export type PoolOptions = PoolConfig & { readonly max: number }

/** Opens a pool; it connects at the first query. */
export function openDatabase(options: PoolOptions, logger: Logger): DatabaseHandle {
  const pool = new Pool({ connectionTimeoutMillis: 10_000, application_name: 'fairlead', ...withoutName(options) })
  // Without a listener, the lost connection of an idle client would end the process. The pool replaces it.
  pool.on('error', (error) => logger.warn({ err: error }, 'a database connection was lost'))
  // The same holds for a connection that is lost while it is checked out. Its query rejects.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db: Database = new Kysely({ dialect: new PostgresDialect({ pool }) })
  const close = async () => {
    await db.destroy()
    // Kysely ends the pool only after a query on it.
    if (!pool.ending) await pool.end()
  }
  return { db, pool, close }
}

/**
 * Removes `application_name` from the connection string. It would replace the name of the pool, by which a new leader
 * recognises requests in progress.
 */
function withoutName({ connectionString, ...options }: PoolOptions): PoolOptions {
  if (connectionString === undefined) return options
  const [address = '', query] = connectionString.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  parameters.delete('application_name')
  return { ...options, connectionString: parameters.size === 0 ? address : `${address}?${parameters}` }
}

/** The key in the table `settings` for the oldest servers that can work on the database. */
export const oldestServerKey = 'oldest_server'

/**
 * Migrates the schema. Many servers may do so at once: an advisory lock lets one through at a time. Each migration
 * records which servers can work on the new schema. Rejects when the database has a migration that this version does not know;
 * `prepareSchema` accepts such databases.
 */
export async function migrate(db: Database, migrations: Migrations): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => recording(migrations) } })
  const { error, results = [] } = await migrator.migrateToLatest()
  if (error === undefined) return
  const failed = results.find(({ status }) => status === 'Error')
  if (failed !== undefined) {
    const { message } = error as Error
    throw new Error(`The migration ${failed.migrationName} failed, and the schema is as before: ${message}`, {
      cause: error,
    })
  }
  if (!(error instanceof Error && /previously executed migration \S+ is missing/.test(error.message))) throw error
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
  pendingMigrations(migrations, { applied: rows.map(({ name }) => name), oldestServer: undefined })
}

/** Returns the same migrations; each also records the oldest servers that can work on its result. */
function recording(migrations: Migrations): Record<string, Migration> {
  const entries = Object.entries(migrations).map(([name, { up }]): [string, Migration] => {
    const upTo = Object.fromEntries(Object.entries(migrations).filter(([each]) => each <= name))
    const oldest = oldestServerAfter(upTo)
    const record = async (db: Kysely<unknown>) => {
      await up(db)
      await sql`insert into settings (key, value) values (${oldestServerKey}, ${Buffer.from(oldest)})
        on conflict (key) do update set value = excluded.value`.execute(db)
    }
    return [name, { up: record }]
  })
  return Object.fromEntries(entries)
}

/**
 * Takes an advisory lock that the transaction holds to its end; transactions that lock the same name wait for each
 * other. Meant for limits: a count made after this call stays valid until the row that it allows is committed.
 */
export async function lockByName(transaction: Transaction, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(transaction)
}

/**
 * Takes the lock of `lockByName` in shared mode. Transactions that share a name run side by side; they and a
 * transaction that locks it wait for each other.
 */
export async function shareByName(transaction: Transaction, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(hashtextextended(${name}, 0))`.execute(transaction)
}

/**
 * Runs `work` under an advisory lock of a separate connection. For work that commits on several connections, which one
 * transaction could not cover.
 */
export function withLock<Result>(database: Database, name: string, work: () => Promise<Result>): Promise<Result> {
  const key = sql`hashtextextended(${name}, 0)`
  return database.connection().execute(async (connection) => {
    await sql`select pg_advisory_lock(${key})`.execute(connection)
    try {
      return await work()
    } finally {
      await sql`select pg_advisory_unlock(${key})`.execute(connection)
    }
  })
}

/**
 * Returns a time `ms` from now by the clock of the database, for rows that the database compares with its clock. The
 * clock of the server may differ.
 */
export const fromNow = (ms: number) => sql<Date>`now() + make_interval(secs => ${ms / 1000}::float8)`

/** Returns the current time of the database, to compute times that the database compares with its clock. */
export async function databaseNow(on: Database | Transaction): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(on)
  return rows[0]?.now ?? new Date()
}
