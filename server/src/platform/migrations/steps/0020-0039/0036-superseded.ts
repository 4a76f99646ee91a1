import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** A deployment that waited for its build comes back when the one that took its place never serves. */
export const superseded: Migration = {
  async up(db) {
    await sql`alter table deployments add column superseded_by text`.execute(db)
    await sql`create index deployments_superseded_by on deployments (superseded_by) where superseded_by is not null`.execute(
      db,
    )
  },
}
