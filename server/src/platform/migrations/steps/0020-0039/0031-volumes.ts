import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * The volumes of apps that are deployed as images, which have no fairlead.json. Servers of older versions start their releases
 * without volumes, as they do with those of a fairlead.json.
 */
export const volumes: Migration = {
  async up(db) {
    await sql
      .raw(`create table app_volumes (
        app_id text collate "C" not null references apps on delete cascade,
        name text collate "C" not null,
        path text not null,
        primary key (app_id, name)
      )`)
      .execute(db)
  },
}
