import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Null for a database whose password was never rotated: its owner logs in.
  `alter table databases add column second_role text`,
  `alter table databases add column login text not null default 'owner' check (login in ('owner', 'second'))`,
  `alter table databases add column next_password bytea`,
  `alter table databases add column former_password bytea`,
  `alter table databases add column former_ends_at timestamptz`,
  `alter table databases add check ((former_password is null) = (former_ends_at is null))`,
  `alter table deployments add column former_values bytea`,
]

/** Two roles by turns log in to a database, so that the credentials of before and after a rotation work at the same time. */
export const databaseLogins: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
