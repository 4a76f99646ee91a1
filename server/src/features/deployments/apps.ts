import { sql } from 'kysely'
import { notFound } from '../../contract/errors.ts'
import type { BodyOutput, QueryOutput, ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Page, PageRequest } from '../../http/page.ts'
import type { Principal, TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { App, AppDirectory, OwnedApp, OwnedApps } from './app-directory.ts'
import { notifyChange } from './changes.ts'
import type { UrlOf } from './outcome.ts'
import { appView, releaseOf } from './presentation.ts'
import type { DeploymentStore } from './rows.ts'
import { tablesOf } from './tables.ts'

type Apply = (
  transaction: Transaction,
  project: TenantProject,
  app: App,
  request: { readonly principal: Principal; readonly body: BodyOutput<'apps.apply'> },
) => Promise<ResponseBody<'apps.apply'>>

export function appHandlers(apps: AppRequests, apply: Apply): HandlersOf<'apps' | 'releases'> {
  return {
    'apps.list': ({ project, page }) => apps.list(project, page),
    'apps.get': ({ project, params }) => apps.get(project, params.id),
    'apps.update': ({ transaction, project, params, body }) => apps.rename(transaction, project, params.id, body.name),
    'apps.delete': async ({ transaction, project, params }) => {
      await apps.delete(transaction, project, params.id)
      return undefined
    },
    'apps.apply': async ({ transaction, principal, project, params, body }) => {
      const app = await apps.hold(transaction, project, params.id)
      return apply(transaction, project, app, { principal, body })
    },
    'releases.list': ({ project, params, query, page }) => apps.releases(project, params.app_id, query, page),
  }
}

/** Reads and changes of apps and their releases, for owners. All throw `not_found`. */
interface AppRequests {
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'apps.list'>>>
  get(project: TenantProject, id: string): Promise<ResponseBody<'apps.get'>>
  hold(transaction: Transaction, project: TenantProject, id: string): Promise<OwnedApp>
  /** Throws `invalid_request` when another app of the project has the name. */
  rename(
    transaction: Transaction,
    project: TenantProject,
    id: string,
    name: string,
  ): Promise<ResponseBody<'apps.update'>>
  delete(transaction: Transaction, project: TenantProject, id: string): Promise<void>
  releases(
    project: TenantProject,
    appId: string,
    filter: QueryOutput<'releases.list'>,
    page: PageRequest,
  ): Promise<Page<ResponseBody<'releases.list'>>>
}

interface AppRequestDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'releases' | 'requests'>
  readonly apps: OwnedApps
  readonly urlOf: UrlOf
  readonly domainsOf: DomainsOf
}

export type DomainsOf = (
  on: Database | Transaction,
  appIds: readonly string[],
) => Promise<ReadonlyMap<string, readonly string[]>>

export function createAppRequests(dependencies: AppRequestDependencies): AppRequests {
  const { database, store, apps } = dependencies

  const found = async (on: Database | Transaction, project: TenantProject, id: string): Promise<OwnedApp> => {
    const app = await apps.find(on, project.id, id)
    if (app === undefined) throw notFound()
    return app
  }

  const view = async (on: Database | Transaction, project: TenantProject, id: string) => {
    const [only] = await viewsOf(dependencies, on, [await found(on, project, id)])
    if (only === undefined) throw notFound()
    return only
  }

  return {
    async list(project, page) {
      const { apps: listed, next } = await apps.page(project.id, page)
      return { body: { apps: await viewsOf(dependencies, database, listed) }, next }
    },

    hold: (transaction, project, id) => apps.hold(transaction, project.id, id),

    get: (project, id) => view(database, project, id),

    async rename(transaction, project, id, name) {
      await found(transaction, project, id)
      await apps.rename(transaction, { id, projectId: project.id }, name)
      return view(transaction, project, id)
    },

    async delete(transaction, project, id) {
      const { id: appId } = await found(transaction, project, id)
      const deleted = await store.requests.deleteApp(transaction, appId)
      for (const deploymentId of deleted) await notifyChange(transaction, { appId, deploymentId })
    },

    async releases(project, appId, filter, page) {
      const { id } = await found(database, project, appId)
      const { rows, next } = await store.releases.page(id, filter, page)
      return { body: { releases: rows.map(releaseOf) }, next }
    },
  }
}

/** Shows apps with their releases and domains, with three reads in total. */
async function viewsOf(
  { store, urlOf, domainsOf }: AppRequestDependencies,
  on: Database | Transaction,
  apps: readonly OwnedApp[],
): Promise<ResponseBody<'apps.get'>[]> {
  const ids = apps.map(({ id }) => id)
  const serving = new Map((await store.releases.serving(on, ids)).map((row) => [row.app_id, row]))
  const latest = new Map((await store.releases.latest(on, ids)).map((row) => [row.app_id, row]))
  const domains = await domainsOf(on, ids)
  return apps.flatMap((app) => {
    const newest = latest.get(app.id)
    // Deleted between the reads.
    if (newest === undefined) return []
    return [appView(app, { serving: serving.get(app.id), latest: newest, domains: domains.get(app.id) ?? [] }, urlOf)]
  })
}

interface ActivityDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'ofProjects'>
  readonly apps: Pick<AppDirectory, 'byIds'>
}

export function activityHandlers(dependencies: ActivityDependencies): HandlersOf<'activity'> {
  return {
    'activity.list': ({ project, page }) => list(dependencies, project, page),
    'activity.outcomes': ({ project }) => outcomes(dependencies.database, project),
  }
}

async function list(
  { database, store, apps }: ActivityDependencies,
  project: TenantProject,
  page: PageRequest,
): Promise<Page<ResponseBody<'activity.list'>>> {
  const { rows, next } = await store.ofProjects.list(project.id, page)
  const byId = await apps.byIds(
    database,
    rows.map((row) => row.app_id),
  )
  const releases = rows.flatMap((row) => {
    const app = byId.get(row.app_id)
    // Deleted between the two reads.
    return app === undefined ? [] : [{ ...releaseOf(row), app: { id: app.id, name: app.name } }]
  })
  return { body: { releases }, next }
}

async function outcomes(database: Database, project: TenantProject): Promise<ResponseBody<'activity.outcomes'>> {
  const rows = await tablesOf(database)
    .selectFrom('deployments')
    .select(({ fn }) => [
      sql<Date>`date_bin('15 minutes', created_at, 'epoch')`.as('at'),
      fn.countAll<string>().filterWhere('status', 'in', ['running', 'superseded', 'stopped']).as('succeeded'),
      fn.countAll<string>().filterWhere('status', '=', 'failed').as('failed'),
      fn.countAll<string>().filterWhere('status', 'in', ['building', 'canceled']).as('other'),
    ])
    .where('project_id', '=', project.id)
    .where('created_at', '>', sql<Date>`now() - interval '15 days'`)
    .groupBy(sql`1`)
    .orderBy(sql`1`)
    .execute()
  return {
    outcomes: rows.map(({ at, succeeded, failed, other }) => ({
      at: at.toISOString(),
      succeeded: Number(succeeded),
      failed: Number(failed),
      other: Number(other),
    })),
  }
}
