import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete apps and know nothing of their variables.
  `create table app_variables (
    app_id text collate "C" not null references apps on delete cascade,
    name text collate "C" not null,
    kind text not null check (kind in ('plain', 'secret')),
    value bytea not null,
    updated_at timestamptz not null default now(),
    primary key (app_id, name)
  )`,
  `alter table deployments add column variable_origins jsonb`,
]

/** Variables of apps. Those of earlier deployments have no origins, and stay with their releases. */
export const appVariables: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
