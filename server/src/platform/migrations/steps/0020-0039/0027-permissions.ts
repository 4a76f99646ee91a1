import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** The source of the release that serves an app, or else of its latest one. */
const sourceOfApp = (appId: string) => `(
  select case when source_id is null then git_url else 'uploaded sources' end
  from deployments where deployments.app_id = ${appId}
  order by (status = 'running') desc, generation desc limit 1
)`

const statements = [
  // Apart from `scopes`: servers of older versions could not show a key with a permission that they do not know.
  `alter table api_keys add column may_run boolean`,
  // Servers of older versions set variables and links without a source: those of null belong to their app's.
  `alter table app_variables add column source text`,
  `alter table database_links add column source text`,
  `update app_variables set source = ${sourceOfApp('app_variables.app_id')}`,
  `update database_links set source = ${sourceOfApp('database_links.app_id')}`,
]

/** The permission to run commands, and the source whose code may have an app's variables. */
export const permissions: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
