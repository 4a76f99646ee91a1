import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete apps and know nothing of their schedules.
  `create table schedules (
    id text collate "C" primary key,
    app_id text collate "C" not null references apps on delete cascade,
    project_id text collate "C" not null,
    account_id text collate "C" not null references accounts,
    name text not null,
    schedule text not null,
    timezone text not null,
    command jsonb not null,
    overlap text not null check (overlap in ('forbid', 'allow', 'replace')),
    from_file boolean not null default false,
    next_at timestamptz not null,
    created_at timestamptz not null default now(),
    unique (app_id, name)
  )`,
  `create index schedules_due on schedules (next_at)`,
  `create index schedules_account on schedules (account_id)`,
]

/** Times at which commands of apps begin. `next_at` is the next one that no run was made for. */
export const schedules: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
