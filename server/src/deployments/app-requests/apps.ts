import { notFound } from '../../contract/errors.ts'
import type { QueryOutput, ResponseBody } from '../../contract/operations.ts'
import type { Page, PageRequest } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { OwnedApp, OwnedApps } from '../app-directory.ts'
import { notifyChange } from '../changes.ts'
import type { UrlOf } from '../outcome.ts'
import type { DeploymentStore } from '../rows.ts'
import { appView, releaseOf } from './presentation.ts'

/** Apps and their releases as owners read and change them. All throw `not_found`. */
export interface AppRequests {
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'apps.list'>>>
  get(project: TenantProject, id: string): Promise<ResponseBody<'apps.get'>>
  /** Returns the app, locked until the transaction ends. */
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

export interface AppRequestDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'releases' | 'requests'>
  readonly apps: OwnedApps
  readonly urlOf: UrlOf
  /** Returns the names that lead to apps, by the ids of the apps. */
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

/** Shows apps with their releases and domains, by three reads for all of them. */
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
