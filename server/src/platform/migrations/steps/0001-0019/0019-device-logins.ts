import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `create table device_logins (
    device_hash bytea primary key,
    user_hash bytea not null unique,
    name text not null,
    address text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    interval_seconds integer not null,
    polled_at timestamptz,
    decided_at timestamptz,
    user_id text collate "C" references users on delete cascade
  )`,
  `create index device_logins_expiry on device_logins (expires_at)`,
]

/** Logins of commands that wait for a person in the dashboard. One that was decided without a user is refused. */
export const deviceLogins: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
