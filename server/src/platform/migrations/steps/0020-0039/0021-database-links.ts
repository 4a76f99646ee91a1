import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Servers of older versions delete apps and databases and know nothing of their links.
  `create table database_links (
    id text collate "C" primary key,
    project_id text collate "C" not null,
    app_id text collate "C" not null references apps on delete cascade,
    database_id text collate "C" not null references databases on delete cascade,
    variable text collate "C" not null,
    created_at timestamptz not null default now(),
    unique (app_id, variable)
  )`,
  `create index database_links_project on database_links (project_id)`,
  `create index database_links_database on database_links (database_id)`,
]

/** Links of databases to apps. */
export const databaseLinks: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
