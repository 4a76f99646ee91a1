import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'

const statements = [
  // All names of a registered domain begin alike when they are read backwards.
  'create index domain_holders_backwards on domain_holders (reverse(name))',
  // Domains that are not served yet count as well.
  `create index domains_wanted on domains (registered) where status = 'pending'`,
]

/** Finds those who want or had names of a registered domain. */
export const domainContests: Migration = {
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}
