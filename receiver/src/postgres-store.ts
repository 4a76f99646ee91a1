import { randomUUID } from 'node:crypto'
import type { DedupeStore } from './dedupe.ts'
import { ReceiverError } from './errors.ts'

/** What is needed of a database; a `Pool` or `Client` of `pg` fits. */
export interface PostgresQueries {
  query(text: string, values: unknown[]): Promise<{ rows: Record<string, unknown>[] }>
}

export interface PostgresStoreOptions {
  readonly database: PostgresQueries
  /**
   * The table, `fairlead_webhooks` unless given. A webhook's id is the same for all who receive its event: receivers
   * that do different work need a table each.
   */
  readonly table?: string
}

export interface PostgresStore extends DedupeStore {
  /** Makes the table, if it is not there: see `schema`. */
  createTable(): Promise<void>
  /** The statement that makes the table, for your own migrations. */
  readonly schema: string
  /**
   * Forgets what was committed longer than so many days ago. Fairlead sends a webhook again for up to four days, up to
   * ten where answers carry a long `Retry-After`, and later when its user asks it to.
   */
  prune(days: number): Promise<void>
}

/**
 * Remembers in PostgreSQL, for any number of processes and over their restarts. Times are the database's, so the
 * machines' clocks need not agree.
 * @throws ReceiverError `invalid_option`
 */
export function postgresStore({ database, table = 'fairlead_webhooks' }: PostgresStoreOptions): PostgresStore {
  // The name becomes part of statements, so nothing but plain names is let through.
  if (!/^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$/.test(table)) {
    throw new ReceiverError('invalid_option', '`table` is not a plain name. Pass one like "my_webhooks".')
  }
  const schema =
    `create table if not exists ${table} ` +
    '(key text primary key, claim uuid not null, leased_until timestamptz not null, committed_at timestamptz)'

  return {
    schema,
    async createTable() {
      await database.query(schema, [])
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
