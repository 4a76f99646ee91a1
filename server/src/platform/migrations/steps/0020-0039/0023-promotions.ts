import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** The deployment whose release was copied in place of a build. */
export const promotions: Migration = {
  async up(db) {
    await sql`alter table deployments add column from_deployment_id text collate "C"`.execute(db)
  },
}
