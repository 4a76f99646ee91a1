import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  `create table app_processes (
    app_id text collate "C" not null references apps on delete cascade,
    type text collate "C" not null,
    instances integer not null check (instances >= 0),
    primary key (app_id, type)
  )`,
  `create table instances (
    deployment_id text collate "C" not null references deployments on delete cascade,
    type text collate "C" not null,
    number integer not null,
    handle jsonb not null,
    state text not null,
    restarts integer not null default 0,
    started_at timestamptz not null default now(),
    primary key (deployment_id, type, number)
  )`,
]

/**
 * How many instances an app has of each process type, and the instances of a release besides its first one. The first stays
 * in `deployments.instance`, so that servers of older versions go on serving it.
 */
export const processes: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
