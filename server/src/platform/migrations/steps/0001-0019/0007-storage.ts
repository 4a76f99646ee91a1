import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `create table files (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    name text not null,
    size bigint not null check (size >= 0),
    declared_type text,
    detected_type text,
    sha256 bytea not null,
    token bytea not null,
    uploaded_at timestamptz not null default now()
  )`,
  `create index files_project on files (project_id, id)`,
  // One row a project: uploads that end together wait for each other here, so that none counts without the others.
  `create table storage_usage (
    project_id text collate "C" primary key references projects,
    bytes bigint not null check (bytes >= 0)
  )`,
]

/** Files and how much of its storage each project uses. */
export const storage: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
