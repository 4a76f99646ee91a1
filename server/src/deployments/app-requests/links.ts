import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import { isId } from '../../contract/ids.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import { mostVariables } from '../../contract/variables.ts'
import { isAuthorized, type Principal, type TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { AppDirectory, OwnedApp } from '../app-directory.ts'
import { type AppVariables, sourceOfSecrets } from '../app-variables.ts'
import type { ReleaseReads } from '../reads.ts'
import type { ReadDatabases } from '../state/variables-of-apps/links.ts'
import { tablesOf } from '../tables.ts'

type Link = ResponseBody<'links.create'>

/** The links between apps and databases of a project, as owners read and change them. */
export interface LinkRequests {
  list(project: TenantProject): Promise<ResponseBody<'links.list'>>
  /**
   * Returns the link that is there already, if it has the same database. Throws `forbidden` for a key that may not change
   * databases, and `invalid_request` for an app or a database that is not there, for a variable that the app has, also from
   * another database, and for an app with too many links.
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
 * Finds the link of this name. Removes that of a database which is being deleted: no list shows it, and it would keep the
 * name until the database is gone. Throws `invalid_request` for an app that has too many links. The app is locked.
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
