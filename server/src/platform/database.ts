import { Kysely, type Transaction as KyselyTransaction, PostgresDialect, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { Pool, type PoolConfig } from 'pg'
import type { Logger } from './logger.ts'

/** The database without any table in sight: a feature sees its own by `db.withTables<ItsTables>()`. */
// biome-ignore lint/complexity/noBannedTypes: Kysely's own notation for "no tables".
export type Database = Kysely<{}>
// biome-ignore lint/complexity/noBannedTypes: as above.
export type Transaction = KyselyTransaction<{}>

export interface DatabaseHandle {
  readonly db: Database
  readonly pool: Pool
  close(): Promise<void>
}

/** Opens a pool; nothing is connected until the first query. */
export function openDatabase(connection: PoolConfig, logger: Logger): DatabaseHandle {
  const pool = new Pool({ max: 20, connectionTimeoutMillis: 10_000, application_name: 'fairlead', ...connection })
  // Without a listener a connection lost while idle would end the process; the pool replaces it by itself.
  pool.on('error', (error) => logger.warn({ err: error }, 'a database connection was lost'))
  // The same for one lost while it is lent out; the query on it, if there is one, reports the loss by itself.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const db: Database = new Kysely({ dialect: new PostgresDialect({ pool }) })
  return { db, pool, close: () => db.destroy() }
}

/** Brings the schema up to date; many servers may do so at once, one advisory lock lets one through at a time. */
export async function migrate(db: Database, migrations: Readonly<Record<string, Migration>>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => ({ ...migrations }) } })
  const { error } = await migrator.migrateToLatest()
  if (error !== undefined) throw error
}

/**
 * Lets transactions that name the same thing run one after the other, from here to their end. For limits: what is counted
 * after this call stays as counted until the row that it allows is committed.
 */
export async function lockByName(transaction: Transaction, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`.execute(transaction)
}
