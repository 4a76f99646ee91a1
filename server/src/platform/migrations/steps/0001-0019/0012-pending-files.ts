import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Files that are in the store and have no row in `files`: uploads under way, and deleted files not yet removed. */
export const pendingFiles: Migration = {
  async up(db) {
    // No reference to a project: a row may outlive the project whose file it names.
    await sql`create table pending_files (
      file_id text collate "C" primary key,
      server_id text not null,
      lease_until timestamptz not null,
      created_at timestamptz not null default now()
    )`.execute(db)
  },
}
