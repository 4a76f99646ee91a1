import { firstRelease } from './0001-first-release.ts'
import type { Migrations } from './schema.ts'

/**
 * All migrations. Until the first release, a change edits the first migration and raises the last number of its name, so that
 * databases with the former schema are refused. A released migration never changes.
 */
export const migrations: Migrations = {
  '0001-first-release-1': firstRelease,
}
