import { Kysely, type Transaction as KyselyTransaction, PostgresDialect, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { Pool, type PoolConfig } from 'pg'
import type { Logger } from './logger.ts'
import { type Migrations, oldestServerAfter, pendingMigrations } from './migrations/schema.ts'

/** The database without any table types. A feature gets those of its own tables by `db.withTables<ItsTables>()`. */
// biome-ignore lint/complexity/noBannedTypes: Kysely's own notation for "no tables".
export type Database = Kysely<{}>
// biome-ignore lint/complexity/noBannedTypes: as above.
export type Transaction = KyselyTransaction<{}>

export interface DatabaseHandle {
  readonly db: Database
  readonly pool: Pool
  close(): Promise<void>
}

/** How to connect, and the most connections that are open at once. */
export type PoolOptions = PoolConfig & { readonly max: number }

/** Opens a pool; it connects at the first query. */
export function openDatabase(options: PoolOptions, logger: Logger): DatabaseHandle {
  const pool = new Pool({ connectionTimeoutMillis: 10_000, application_name: 'fairlead', ...withoutName(options) })
  // Without a listener, the error of an idle connection that is lost would end the process. The pool replaces it.
  pool.on('error', (error) => logger.warn({ err: error }, 'a database connection was lost'))
  // The same holds for a connection lost while it is checked out; a query on it rejects by itself.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db: Database = new Kysely({ dialect: new PostgresDialect({ pool }) })
  const close = async () => {
    await db.destroy()
    // Kysely ends the pool only when it has run a query on it.
    if (!pool.ending) await pool.end()
  }
  return { db, pool, close }
}

/** Leaves out the name in an address, which would replace that of the pool: a new leader knows requests in progress by it. */
function withoutName({ connectionString, ...options }: PoolOptions): PoolOptions {
  if (connectionString === undefined) return options
  const [address = '', query] = connectionString.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  parameters.delete('application_name')
  return { ...options, connectionString: parameters.size === 0 ? address : `${address}?${parameters}` }
}

/** The key of `settings` under which a database keeps the oldest servers that work on it. */
export const oldestServerKey = 'oldest_server'

/**
 * Brings the schema up to date. Many servers may do so at once: an advisory lock lets one through at a time. Who may work on
 * the new schema is recorded with each step. Rejects when the database has a migration that this version does not know;
 * `prepareSchema` is for databases that may.
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
  const unknown = /previously executed migration (\S+) is missing/.exec(
    error instanceof Error ? error.message : '',
  )?.[1]
  if (unknown === undefined) throw error
  pendingMigrations(migrations, { applied: [unknown], oldestServer: undefined })
}

/** Returns the same migrations; each also records the oldest servers that work after it. */
function recording(migrations: Migrations): Record<string, Migration> {
  const entries = Object.entries(migrations).map(([name, { up }]): [string, Migration] => {
    const upTo = Object.fromEntries(Object.entries(migrations).filter(([each]) => each <= name))
    const oldest = oldestServerAfter(upTo)
    const record = async (db: Kysely<unknown>) => {
      await up(db)
      if (oldest === undefined) return
      await sql`insert into settings (key, value) values (${oldestServerKey}, ${Buffer.from(oldest)})
        on conflict (key) do update set value = excluded.value`.execute(db)
    }
    return [name, { up: record }]
  })
  return Object.fromEntries(entries)
}

/**
 * Takes an advisory lock that the transaction holds to its end; transactions that lock the same name wait for each other.
 * Meant for limits: a count made after this call stays valid until the row that it allows is committed.
 */
export async function lockByName(transaction: Transaction, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(transaction)
}

/** The same, but transactions that share the name go side by side; they and a transaction that locks it wait for each other. */
export async function shareByName(transaction: Transaction, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(hashtextextended(${name}, 0))`.execute(transaction)
}

/**
 * Runs `work` while this process has an advisory lock, which ends with the connection that it takes. For work that needs further connections
 * and commits meanwhile, which a transaction could not wait for.
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

/** A time from now by the clock of the database, for rows that the database compares with its clock: the server's may differ. */
export const fromNow = (ms: number) => sql<Date>`now() + make_interval(secs => ${ms / 1000}::float8)`

/** Returns the time of the database, for computations of times that it compares with its clock. */
export async function databaseNow(on: Database | Transaction): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(on)
  return rows[0]?.now ?? new Date()
}
