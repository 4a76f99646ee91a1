import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** The folder of an app as a deployment's creator gave it, and the builds that a deployment waits for. */
export const rootsAndQueue: Migration = {
  async up(db) {
    await sql`alter table deployments add column root text, add column builds_before integer`.execute(db)
  },
}
