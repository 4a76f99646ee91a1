import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // Databases and snapshots of before keep their names in the engine.
  `alter table databases add column role_name text`,
  `update databases set role_name = id`,
  `alter table databases alter column role_name set not null`,
  `alter table snapshots add column copy_name text`,
  `update snapshots set copy_name = id`,
  `alter table snapshots alter column copy_name set not null`,
]

/** The names of databases, roles and copies in the engine, which were the ids: PostgreSQL shows them to all of its users. */
export const engineNames: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
