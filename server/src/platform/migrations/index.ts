import type { Migration } from 'kysely/migration'
import { foundation } from './0001-foundation.ts'
import { databases } from './0006-databases.ts'

/** All steps of the schema, applied in the order of their names. A released one is never edited. */
export const migrations: Readonly<Record<string, Migration>> = {
  '0001-foundation': foundation,
  '0006-databases': databases,
}
