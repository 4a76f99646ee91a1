import type { Migration } from 'kysely/migration'
import { foundation } from './0001-foundation.ts'
import { deployments } from './0003-deployments.ts'
import { projects } from './0008-projects.ts'

/** All steps of the schema, applied in the order of their names. A released one is never edited. */
export const migrations: Readonly<Record<string, Migration>> = {
  '0001-foundation': foundation,
  '0003-deployments': deployments,
  '0008-projects': projects,
}
