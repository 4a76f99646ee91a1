import { sql } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import { mostVariables } from '../../contract/variables.ts'
import type { HandlersOf } from '../../http/call.ts'
import { isAuthorized, type Principal, type TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import type { AppDirectory, OwnedApp } from './app-directory.ts'
import { type AppVariables, sourceOfSecrets } from './app-variables.ts'
import { notifyChange } from './changes.ts'
import { isOutdated, outdatedFirst } from './instance-rows.ts'
import type { ReleaseReads } from './reads.ts'
import type { AppVariable } from './release-variables.ts'
import type { DeploymentSecrets } from './secrets.ts'
import { type DeploymentRow, tablesOf } from './tables.ts'

export function linkHandlers(links: LinkRequests): HandlersOf<'links'> {
  return {
    'links.list': ({ project }) => links.list(project),
    'links.create': ({ transaction, principal, project, body }) =>
      links.create(transaction, { principal, project }, body),
    'links.delete': async ({ transaction, project, params }) => {
      await links.delete(transaction, project, params.id)
      return undefined
    },
  }
}

type Link = ResponseBody<'links.create'>

/** Reads and changes of the links between a project's apps and databases, for owners. */
export interface LinkRequests {
  list(project: TenantProject): Promise<ResponseBody<'links.list'>>
  /**
   * Returns the existing link, if it has the same database. Throws `forbidden` for a key that may not change databases,
   * and `invalid_request` for a missing app or database, for a variable that the app already has, also from another
   * database, and for an app with too many links.
   */
  create(
    transaction: Transaction,
    caller: { readonly principal: Principal; readonly project: TenantProject },
    body: BodyOutput<'links.create'>,
  ): Promise<Link>
  /** Throws `not_found`. */
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<void>
}

interface LinkRequestDependencies {
  readonly database: Database
  readonly apps: Pick<AppDirectory, 'byIds'>
  /** Locks an app until the transaction ends. Throws `not_found`. */
  readonly hold: (transaction: Transaction, project: TenantProject, appId: string) => Promise<OwnedApp>
  readonly appVariables: Pick<AppVariables, 'of'>
  readonly readDatabases: ReadDatabases
  readonly releases: Pick<ReleaseReads, 'serving' | 'latest'>
}

export function createLinkRequests(dependencies: LinkRequestDependencies): LinkRequests {
  const { database, apps, readDatabases } = dependencies
  return {
    async list({ id }) {
      const rows = await linksOf(database).where('project_id', '=', id).orderBy('id', 'desc').execute()
      const named = await apps.byIds(
        database,
        rows.map(({ app_id }) => app_id),
      )
      const found = await readDatabases(
        database,
        id,
        rows.map(({ database_id }) => database_id),
      )
      const links = rows.flatMap((row) => {
        const [app, linked] = [named.get(row.app_id), found.get(row.database_id)]
        // Deleted between the reads, or waiting to be restored.
        return app === undefined || linked === undefined ? [] : [viewOf(row, app.name, linked.name)]
      })
      return { links }
    },

    create: (transaction, caller, body) => createLink(dependencies, transaction, caller, body),

    async delete(transaction, project, id) {
      const { numDeletedRows } = await tablesOf(transaction)
        .deleteFrom('database_links')
        .where('id', '=', id)
        .where('project_id', '=', project.id)
        .executeTakeFirst()
      if (numDeletedRows !== 1n) throw notFound()
    },
  }
}

const linksOf = (on: Database | Transaction) => tablesOf(on).selectFrom('database_links').selectAll()

async function createLink(
  { hold, appVariables, readDatabases, releases }: LinkRequestDependencies,
  transaction: Transaction,
  { principal, project }: { readonly principal: Principal; readonly project: TenantProject },
  { app: appId, database: databaseId, variable }: BodyOutput<'links.create'>,
): Promise<Link> {
  for (const access of ['deployments:write', 'databases:write'] as const) {
    if (isAuthorized(principal, { access }, project.id)) continue
    throw new ApiError('forbidden', `This API key lacks the permission ${access}.`, { scope: access })
  }
  const missing = (field: string, kind: string) => invalidRequest({ field, message: `is no ${kind} of this project` })
  if (!isId('app', appId)) throw missing('app', 'app')
  const app = await hold(transaction, project, appId).catch((error: unknown) => {
    throw error instanceof ApiError ? missing('app', 'app') : error
  })
  const ids = isId('database', databaseId) ? [databaseId] : []
  const found = (await readDatabases(transaction, project.id, ids)).get(databaseId)
  if (found === undefined) throw missing('database', 'database')
  if ((await appVariables.of(transaction, appId)).some(({ name }) => name === variable)) {
    throw invalidRequest({ field: 'variable', message: 'is a variable of the app: remove it, or choose another name' })
  }
  const before = await findOrMakeRoom(readDatabases, transaction, project.id, { appId, variable })
  if (before?.database_id === databaseId) return viewOf(before, app.name, found.name)
  if (before !== null) throw invalidRequest({ field: 'variable', message: 'has another link of the app' })
  const source = await sourceOfSecrets(releases, transaction, appId)
  const row = await tablesOf(transaction)
    .insertInto('database_links')
    .values({ id: newId('link'), project_id: project.id, app_id: appId, database_id: databaseId, variable, source })
    .returningAll()
    .executeTakeFirstOrThrow()
  return viewOf(row, app.name, found.name)
}

/**
 * Finds the link with this name. Removes the link of a database that is being deleted: no list shows that link, and it
 * would keep the name until the database is gone. Throws `invalid_request` for an app that has too many links. The
 * caller holds the app's lock.
 */
async function findOrMakeRoom(
  readDatabases: ReadDatabases,
  transaction: Transaction,
  projectId: string,
  { appId, variable }: { readonly appId: string; readonly variable: string },
): Promise<LinkRow | null> {
  const links = await linksOf(transaction).where('app_id', '=', appId).execute()
  const before = links.find((link) => link.variable === variable)
  if (before === undefined) {
    if (links.length < mostVariables) return null
    throw invalidRequest({ field: 'app', message: `has ${mostVariables} links, as many as it may have` })
  }
  if ((await readDatabases(transaction, projectId, [before.database_id])).size > 0) return before
  await tablesOf(transaction).deleteFrom('database_links').where('id', '=', before.id).execute()
  return null
}

interface LinkRow {
  readonly id: string
  readonly app_id: string
  readonly database_id: string
  readonly variable: string
  readonly created_at: Date
}

const viewOf = ({ id, app_id, database_id, variable, created_at }: LinkRow, app: string, database: string): Link => ({
  id,
  app_id,
  app_name: app,
  database_id,
  database_name: database,
  variable,
  created_at: created_at.toISOString(),
})

export interface LinkedApps {
  /**
   * Gives the new connection string of a database to the releases that have the old string, and lets their instances be
   * replaced. The new password already works, and the caller holds the database's lock. Resolves to false when no
   * release can have the old string.
   */
  follow(transaction: Transaction, rotated: RotatedDatabase): Promise<boolean>
  /** True when every instance with a row was started with the current connection string of the database. */
  haveFollowed(databaseId: string): Promise<boolean>
}

export function createLinkedApps(given: {
  readonly database: Database
  readonly secretBox: SecretBox
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf' | 'formerOf'>
}): LinkedApps {
  const { database } = given
  return {
    async follow(transaction, rotated) {
      const releases = await refreshReleases(given, transaction, rotated)
      const active = releases.filter(({ status }) => status === 'running' || status === 'building')
      for (const { id, app_id, status } of active)
        if (status === 'running') await notifyChange(transaction, { appId: app_id, deploymentId: id })
      return active.length > 0
    },

    async haveFollowed(databaseId) {
      const releases = await releasesInUse(database, databaseId)
      // A starting instance may have read its variables before.
      if (releases.some((row) => row.status === 'building' || outdatedFirst(row).length > 0)) return false
      const byId = new Map(releases.map((row) => [row.id, row]))
      if (byId.size === 0) return true
      const instances = await tablesOf(database)
        .selectFrom('instances')
        .selectAll()
        .where('deployment_id', 'in', [...byId.keys()])
        .execute()
      return instances.every((each) => {
        const row = byId.get(each.deployment_id)
        return row === undefined || !isOutdated(row, each)
      })
    },
  }
}

/** Reads databases of a project by their ids, except databases that are being deleted. */
export type ReadDatabases = (
  on: Database | Transaction,
  projectId: string,
  ids: readonly string[],
) => Promise<ReadonlyMap<string, { readonly name: string; readonly connectionString: string }>>

/**
 * Returns the variables of an app's releases: the app's variables, and variables of linked databases under other names.
 */
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

const has = (databaseId: string) =>
  sql<boolean>`exists (
    select from jsonb_each_text(coalesce(variable_origins->'linked', '{}')) as linked where linked.value = ${databaseId}
  )`

/** True for deployments that have instances or can get some. A project may have thousands of other deployments. */
const startable = sql<boolean>`(retained or status in ('building', 'running'))`

interface RotatedDatabase {
  readonly projectId: string
  readonly databaseId: string
  readonly connectionString: string
}

/** How many former connection strings a release keeps, so that its logs mask them. */
const mostFormer = 5

/**
 * Gives the new connection string of a database to the releases that have the old string and can still start, and
 * counts the rotation: instances that started before it are outdated. Returns those releases. The caller holds the
 * database's lock.
 */
async function refreshReleases(
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

/** Returns the releases that have the connection string of a database, and run or are about to run. */
const releasesInUse = (database: Database, databaseId: string): Promise<DeploymentRow[]> =>
  tablesOf(database)
    .selectFrom('deployments')
    .selectAll()
    .where(has(databaseId))
    .where('status', 'in', ['building', 'running'])
    .execute()
