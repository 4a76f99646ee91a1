import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete apps and know nothing of their credentials.
  `create table git_credentials (
    app_id text collate "C" primary key references apps on delete cascade,
    kind text not null check (kind in ('token', 'deploy_key')),
    git_url text not null,
    secret bytea not null,
    public_key text,
    created_at timestamptz not null default now()
  )`,
  `create table git_hosts (
    app_id text collate "C" not null references apps on delete cascade,
    host text not null,
    key text not null,
    met_at timestamptz not null default now(),
    primary key (app_id, host)
  )`,
  // The key or the session that has begun a command; null for those of schedules and of older servers.
  `alter table runs add column begun_by text collate "C", add column cancel_asked_at timestamptz`,
]

/** Credentials of apps for their repositories, the ssh hosts that they have met, and who has begun a command. */
export const gitCredentials: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
