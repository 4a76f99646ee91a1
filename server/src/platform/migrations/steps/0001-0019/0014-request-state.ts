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
  // The trace of the process that owns the row, and what an upload has reserved of the space of its project.
  `alter table pending_files
    add column process text,
    add column project_id text collate "C",
    add column bytes bigint not null default 0 check (bytes >= 0)`,
  `create index pending_files_project on pending_files (project_id)`,
]

/** The rows by which servers on one database count attempts together, and tell whose upload is whose. */
export const requestState: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
