import { sql } from 'kysely'
import type { Database, Transaction } from '../../../platform/database.ts'
import type { SecretBox } from '../../../platform/secrets.ts'
import type { DeploymentSecrets } from '../secrets.ts'
import { type DeploymentRow, tablesOf } from '../tables.ts'
import type { AppVariable } from '../variables.ts'
import type { AppVariables } from './app-variables.ts'

/** Reads databases of a project by their ids; those that are being deleted are left out. */
export type ReadDatabases = (
  on: Database | Transaction,
  projectId: string,
  ids: readonly string[],
) => Promise<ReadonlyMap<string, { readonly name: string; readonly connectionString: string }>>

/** Returns the variables that a release of an app gets: the app's own, and those of linked databases under other names. */
export type SourcesOf = (
  on: Database | Transaction,
  app: { readonly appId: string; readonly projectId: string },
) => Promise<readonly AppVariable[]>

export function createSourcesOf(appVariables: Pick<AppVariables, 'of'>, readDatabases: ReadDatabases): SourcesOf {
  return async (on, { appId, projectId }) => {
    const own = await appVariables.of(on, appId)
    const links = await tablesOf(on)
      .selectFrom('database_links')
      .select(['variable', 'database_id', 'source'])
      .where('app_id', '=', appId)
      .execute()
    const found = await readDatabases(
      on,
      projectId,
      links.map(({ database_id }) => database_id),
    )
    const linked = links.flatMap(({ variable: name, database_id: databaseId, source }): AppVariable[] => {
      const value = found.get(databaseId)?.connectionString
      const isOwn = own.some((variable) => variable.name === name)
      return value === undefined || isOwn ? [] : [{ name, kind: 'secret', value, source, databaseId }]
    })
    return [...own, ...linked]
  }
}

/** True for deployments whose variables have the connection string of a database. */
const has = (databaseId: string) =>
  sql<boolean>`exists (
    select from jsonb_each_text(coalesce(variable_origins->'linked', '{}')) as linked where linked.value = ${databaseId}
  )`

/** True for deployments that have instances or can get some. A project may have thousands of others. */
const startable = sql<boolean>`(retained or status in ('building', 'running'))`

/** A database that has a new password, and its new connection string. */
export interface RotatedDatabase {
  readonly projectId: string
  readonly databaseId: string
  readonly connectionString: string
}

/** The connection strings of before rotations that a release keeps, so that its logs mask them. */
const mostFormer = 5

/**
 * Gives the new connection string of a database to the releases that have the old one and can still be started, and counts the
 * rotation: an instance that was started before is outdated from then on. Returns them. The lock of the database is the caller's.
 */
export async function refreshReleases(
  given: {
    readonly secretBox: SecretBox
    readonly secrets: Pick<DeploymentSecrets, 'variablesOf' | 'formerOf'>
  },
  transaction: Transaction,
  { projectId, databaseId, connectionString }: RotatedDatabase,
): Promise<readonly DeploymentRow[]> {
  const trx = tablesOf(transaction)
  const rows = await trx
    .selectFrom('deployments')
    .selectAll()
    .where('project_id', '=', projectId)
    .where(has(databaseId))
    .where(startable)
    .forUpdate()
    .execute()
  for (const row of rows) {
    const { given: own, plain, linked = {}, rotations = 0 } = row.variable_origins
    const names = Object.keys(linked).filter((name) => linked[name] === databaseId)
    const before = given.secrets.variablesOf(row)
    const former = [...given.secrets.formerOf(row), ...names.flatMap((name) => before[name] ?? [])]
    const kept = [...new Set(former)].slice(-mostFormer)
    const after = { ...before, ...Object.fromEntries(names.map((name) => [name, connectionString])) }
    await trx
      .updateTable('deployments')
      .set({
        variables: given.secretBox.encrypt(JSON.stringify(after), row.id),
        former_values: given.secretBox.encrypt(JSON.stringify(kept), row.id),
        variable_origins: JSON.stringify({ given: own, plain, linked, rotations: rotations + 1 }),
      })
      .where('id', '=', row.id)
      .execute()
  }
  return rows
}

/** Returns the releases that have the connection string of a database, and run or are about to. */
export const releasesInUse = (database: Database, databaseId: string): Promise<DeploymentRow[]> =>
  tablesOf(database)
    .selectFrom('deployments')
    .selectAll()
    .where(has(databaseId))
    .where('status', 'in', ['building', 'running'])
    .execute()
