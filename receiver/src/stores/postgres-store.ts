import { randomUUID } from 'node:crypto'
import { ReceiverError } from '../errors.ts'
import type { DedupeStore } from './dedupe.ts'

/** The database access that the store needs. A `Pool` or `Client` of `pg` is assignable to it. */
export interface PostgresQueries {
  query(text: string, values: unknown[]): Promise<{ rows: Record<string, unknown>[] }>
}

export interface PostgresStoreOptions {
  readonly database: PostgresQueries
  /**
   * The table. Default: `fairlead_webhooks`. An event has the same webhook id at all endpoints, so receivers with
   * different tasks need separate tables.
   */
  readonly table?: string
}

export interface PostgresStore extends DedupeStore {
  /** Creates the table unless it exists: see `schema`. Any number of processes may do so at once. */
  createTable(): Promise<void>
  /** The statement that creates the table, for your own migrations. */
  readonly schema: string
  /**
   * Deletes keys that were committed more than this number of days ago. Fairlead retries a webhook for up to four days,
   * for up to ten when answers have a long `Retry-After`, and later when its user requests it.
   */
  prune(days: number): Promise<void>
}

/**
 * A store in PostgreSQL that any number of processes can share and that survives restarts. It uses the database's clock,
 * so the clocks of the machines need not agree.
 * @throws ReceiverError `invalid_option`
 */
export function postgresStore({ database, table = 'fairlead_webhooks' }: PostgresStoreOptions): PostgresStore {
  // The name becomes part of SQL statements, so only plain names are allowed.
  if (!/^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$/.test(table)) {
    throw new ReceiverError('invalid_option', '`table` is not a plain name. Pass one like "my_webhooks".')
  }
  const schema =
    `create table if not exists ${table} ` +
    '(key text primary key, claim uuid not null, leased_until timestamptz not null, committed_at timestamptz)'

  return {
    schema,
    async createTable() {
      // PostgreSQL refuses one of two concurrent `create table` statements, also with `if not exists`.
      await database.query(
        `do $$ begin perform pg_advisory_xact_lock(hashtextextended('${table}', 0)); ${schema}; end $$`,
        [],
      )
    },

    async claim(key, lease) {
      const claim = randomUUID()
      const taken = await database.query(
        `insert into ${table} as known (key, claim, leased_until)
         values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
         on conflict (key) do update set claim = excluded.claim, leased_until = excluded.leased_until
         where known.committed_at is null and known.leased_until <= clock_timestamp()
         returning key`,
        [key, claim, lease],
      )
      if (taken.rows.length === 0) {
        const found = await database.query(`select 1 from ${table} where key = $1 and committed_at is not null`, [key])
        return { state: found.rows.length > 0 ? 'done' : 'busy' }
      }
      return {
        state: 'claimed',
        async commit() {
          await database.query(
            `update ${table} set committed_at = clock_timestamp() where key = $1 and claim = $2 and committed_at is null`,
            [key, claim],
          )
        },
        async release() {
          await database.query(`delete from ${table} where key = $1 and claim = $2 and committed_at is null`, [
            key,
            claim,
          ])
        },
      }
    },

    async prune(days) {
      await database.query(
        `delete from ${table} where committed_at < clock_timestamp() - $1 * interval '1 day'
         or (committed_at is null and leased_until < clock_timestamp() - $1 * interval '1 day')`,
        [days],
      )
    },
  }
}
