import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Whoever inserts first does the work; whoever inserts the same meanwhile waits for that transaction's end.
  `create table idempotency_keys (
    account_id text collate "C" not null references accounts on delete cascade,
    operation text not null,
    key text not null,
    answer bytea,
    created_at timestamptz not null default now(),
    primary key (account_id, operation, key)
  )`,
  `create index idempotency_keys_age on idempotency_keys (created_at)`,
]

/** What was answered to creations that carried an `Idempotency-Key`. */
export const idempotency: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
