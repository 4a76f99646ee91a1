import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  'alter table apps rename column intents to generation',
  'alter table deployments rename column intent to generation',
  'alter index deployments_intent rename to deployments_generation',
  'alter table deployments rename column plan to build_plan',
  // The runtime that built the release and runs its instances.
  `alter table deployments add column runtime text not null default 'process'`,
  'alter table deployments alter column runtime drop default',
  `update deployments set instance = json_build_object('runtime', 'process', 'data', instance) where instance is not null`,
]

/** Generations of apps and handles of runtimes, under the names that the code has for them. */
export const generations: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
