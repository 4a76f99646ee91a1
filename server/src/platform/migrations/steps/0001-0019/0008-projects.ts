import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Projects that are being deleted. */
export const projects: Migration = {
  async up(db) {
    await sql`alter table projects drop constraint projects_status_check`.execute(db)
    await sql`alter table projects add check (status in ('active', 'deleting'))`.execute(db)
  },
}
