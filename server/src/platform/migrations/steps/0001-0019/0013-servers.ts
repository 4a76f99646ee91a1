import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // One row for ever. The epoch counts the take-overs, and never goes back.
  `create table leadership (
    one boolean primary key default true check (one),
    epoch bigint not null check (epoch >= 0),
    holder text,
    renewed_at timestamptz not null default now(),
    data_directory text
  )`,
  'insert into leadership (epoch) values (0)',
  `create table servers (
    id text collate "C" primary key,
    version text not null,
    schema text not null,
    host text not null,
    pid integer not null,
    address text not null,
    data_directory text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now()
  )`,
]

/** The live servers of this database, and the one among them that leads. */
export const servers: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
