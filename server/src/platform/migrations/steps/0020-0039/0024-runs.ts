import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete apps and know nothing of their runs.
  `create table runs (
    id text collate "C" primary key,
    app_id text collate "C" not null references apps on delete cascade,
    project_id text collate "C" not null,
    account_id text collate "C" not null references accounts,
    deployment_id text collate "C",
    schedule_id text collate "C",
    due_at timestamptz,
    command jsonb not null,
    terminal jsonb,
    status text not null
      check (status in ('waiting', 'running', 'succeeded', 'failed', 'canceled', 'skipped')),
    exit_code integer,
    signal text,
    problem text,
    output text,
    ticket_hash bytea unique,
    ticket_expires_at timestamptz,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    unique (schedule_id, due_at)
  )`,
  `create index runs_app on runs (app_id, id)`,
  `create index runs_unfinished on runs (account_id) where status in ('waiting', 'running')`,
]

/** Commands of apps. No two runs of a schedule are for the same time, so that each time begins one. */
export const runs: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
