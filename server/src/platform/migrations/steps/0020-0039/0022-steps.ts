import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** The times of a deployment's steps, and its latest rollback or restart; both name the generation that they are of. */
export const steps: Migration = {
  async up(db) {
    await sql`alter table deployments add column steps jsonb, add column last_request jsonb`.execute(db)
  },
}
