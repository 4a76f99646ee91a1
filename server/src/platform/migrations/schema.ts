import type { Migration } from 'kysely/migration'

/*
 * The schema expands first and contracts later, so that a server and the version after it can work on one database: a
 * migration may add what older servers do not use, and removes or renames something only once no server that may still be
 * running uses it.
 */

export interface SchemaMigration extends Migration {
  /**
   * The oldest servers that still work after this migration, by the newest migration that they know. Left out by a migration
   * that only adds: every server that worked before works after it. A migration that removes, renames or restricts something
   * names the migration of the version that stopped using it. Servers before that version are refused from then on, and the
   * migration waits until none of them runs.
   */
  readonly oldestServer?: string
}

/** The migrations by name. They are applied in the order of their names. */
export type Migrations = Readonly<Record<string, SchemaMigration>>

/** The schema of a database, as far as it says who may work on it. */
export interface Schema {
  /** The names of the migrations that were applied. */
  readonly applied: readonly string[]
  /** See `SchemaMigration.oldestServer`; `undefined` for an empty database. */
  readonly oldestServer: string | undefined
}

/** Thrown when this version cannot work on a schema. The message says what to do. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

/** Returns the name of the newest migration: the schema that a version is made for. */
export function newestMigration(migrations: Migrations): string {
  return Object.keys(migrations).sort().at(-1) ?? ''
}

/** Returns the oldest servers that work once all of these migrations were applied: at least those that know the first. */
export function oldestServerAfter(migrations: Migrations): string {
  const oldest = Object.values(migrations).flatMap(({ oldestServer }) => oldestServer ?? [])
  return oldest.sort().at(-1) ?? firstMigration(migrations)
}

function firstMigration(migrations: Migrations): string {
  return Object.keys(migrations).sort()[0] ?? ''
}

/**
 * Returns the migrations that this version would apply to a schema; none on the schema of a newer version.
 *
 * @throws SchemaError when this version is too old for the schema, or the schema is from before the first release
 */
export function pendingMigrations(migrations: Migrations, schema: Schema): string[] {
  const pending = Object.keys(migrations).filter((name) => !schema.applied.includes(name))
  const unknown = schema.applied.filter((name) => !(name in migrations))
  if (unknown.length === 0) return pending.sort()
  if (!schema.applied.includes(firstMigration(migrations))) throw new SchemaError(unreleased)
  const { oldestServer } = schema
  const works = pending.length === 0 && oldestServer !== undefined && newestMigration(migrations) >= oldestServer
  if (!works) throw new SchemaError(tooOld(unknown, schema))
  return []
}

/** Every released version has the first migration. */
const unreleased =
  'The data is from a version of Fairlead before its first release, and only that version can read it: save what you need with it, then start this version with a new data directory, and with a new database where DATABASE_URL is set.'

function tooOld(unknown: readonly string[], { oldestServer }: Schema): string {
  const needed = oldestServer === undefined ? '' : ` Versions that know ${oldestServer} can work on it.`
  return `The database is newer than this version of Fairlead: it has the migration ${[...unknown].sort().at(-1)}.${needed} Start the version that made it, or restore a backup from before the update.`
}
