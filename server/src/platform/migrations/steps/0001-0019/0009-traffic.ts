import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** What apps were asked, by the hour. It goes with its app. */
export const traffic: Migration = {
  async up(db) {
    await sql`create table app_traffic (
      app_id text collate "C" not null references apps on delete cascade,
      hour timestamptz not null,
      requests bigint not null check (requests >= 0),
      errors bigint not null check (errors >= 0),
      primary key (app_id, hour)
    )`.execute(db)
  },
}
