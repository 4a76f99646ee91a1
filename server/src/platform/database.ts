import { Kysely, type Transaction as KyselyTransaction, PostgresDialect, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { Pool, type PoolConfig } from 'pg'
import type { Logger } from './logger.ts'

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
  const pool = new Pool({ connectionTimeoutMillis: 10_000, application_name: 'fairlead', ...options })
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

/**
 * Brings the schema up to date. Many servers may do so at once: an advisory lock lets one through at a time. Rejects with
 * what to do when a newer version of Fairlead has changed the schema already.
 */
export async function migrate(db: Database, migrations: Readonly<Record<string, Migration>>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...migrations }) } })
  const { error } = await migrator.migrateToLatest()
  if (error === undefined) return
  const unknown = /previously executed migration (\S+) is missing/.exec(
    error instanceof Error ? error.message : '',
  )?.[1]
  if (unknown === undefined) throw error
  throw new Error(
    `The database is newer than this version of Fairlead: it has the migration ${unknown}. Start the version that made it, or restore a backup from before the update.`,
    { cause: error },
  )
}

/**
 * Takes an advisory lock that the transaction holds to its end; transactions that lock the same name wait for each other.
 * Meant for limits: a count made after this call stays valid until the row that it allows is committed.
 */
export async function lockByName(transaction: Transaction, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(transaction)
}
