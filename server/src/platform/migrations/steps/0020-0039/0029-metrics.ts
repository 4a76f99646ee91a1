import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // The same number of rows for each app, which are overwritten again and again.
  `create table app_metrics (
    app_id text collate "C" not null references apps on delete cascade,
    seconds integer not null,
    slot integer not null,
    began timestamptz not null,
    requests bigint not null,
    answers bigint[] not null,
    times bigint[] not null,
    memory_bytes bigint,
    memory_limit_bytes bigint,
    cpu_seconds double precision not null,
    measured_seconds double precision not null,
    cpu_limit double precision,
    instances integer,
    restarts integer not null,
    primary key (app_id, seconds, slot)
  ) with (fillfactor = 70)`,
  `create table app_usage (
    app_id text collate "C" primary key references apps on delete cascade,
    at timestamptz not null,
    instances jsonb not null
  ) with (fillfactor = 70)`,
]

/** Requests and usage of apps: rings of buckets, and the latest measurement of each instance. They go with their app. */
export const metrics: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
