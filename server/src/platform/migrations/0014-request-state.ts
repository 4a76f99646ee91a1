import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Counts of attempts by limit and key. `granted` is how many of the last statement's attempts were allowed.
  `create table attempts (
    name text not null,
    key text collate "C" not null,
    used integer not null check (used >= 0),
    granted integer not null,
    ends_at timestamptz not null,
    primary key (name, key)
  )`,
  `create index attempts_end on attempts (ends_at)`,
]

/** The rows by which servers on one database count requests together. */
export const requestState: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
