import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete projects and know nothing of their sources.
  `create table sources (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects on delete cascade,
    account_id text collate "C" not null references accounts,
    bytes bigint not null check (bytes >= 0),
    commit text,
    branch text,
    received_at timestamptz,
    used_at timestamptz not null default now(),
    created_at timestamptz not null default now()
  )`,
  `create index sources_account on sources (account_id)`,
  `create index sources_project on sources (project_id)`,
  // No reference: a source may be removed before the deployments that it was used for.
  `alter table deployments add column source_id text collate "C"`,
  `create index deployments_source on deployments (source_id) where source_id is not null`,
]

/** Uploaded sources. A deployment of one has an empty `git_url`, so that servers of older versions can read it. */
export const sources: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
