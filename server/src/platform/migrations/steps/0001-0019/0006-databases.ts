import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // A version's cluster keeps its port, which is part of every connection string that was handed out.
  `create table database_clusters (
    version text primary key,
    port integer not null unique,
    created_at timestamptz not null default now()
  )`,
  `create table databases (
    id text collate "C" primary key,
    project_id text collate "C" not null references projects,
    name text not null,
    plan text not null,
    engine text not null check (engine in ('embedded', 'external')),
    version text not null,
    host text not null,
    port integer not null,
    password bytea not null,
    status text not null check (status in ('provisioning', 'available', 'failed', 'deleting')),
    source_snapshot_id text collate "C",
    restore_id uuid,
    over_limit text not null default 'none' check (over_limit in ('none', 'read_only', 'closed')),
    failure jsonb,
    provisioning_since timestamptz not null default now(),
    available_at timestamptz,
    drop_at timestamptz,
    created_at timestamptz not null default now(),
    check ((status = 'deleting') = (drop_at is not null))
  )`,
  `create index databases_project on databases (project_id, id)`,
  `create table snapshots (
    id text collate "C" primary key,
    database_id text collate "C" not null references databases,
    status text not null check (status in ('creating', 'available', 'failed', 'deleting')),
    size_bytes bigint,
    failure jsonb,
    creating_since timestamptz not null default now(),
    created_at timestamptz not null default now()
  )`,
  `create index snapshots_database on snapshots (database_id, id)`,
]

/** Users' databases, their snapshots, and the clusters that hold them. */
export const databases: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
