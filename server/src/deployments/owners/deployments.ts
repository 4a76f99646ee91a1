import type { ResponseBody } from '../../contract/operations.ts'
import type { Page, PageRequest } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database } from '../../platform/database.ts'
import type { AppDirectory } from '../app-directory.ts'
import type { UrlOf } from '../outcome.ts'
import type { DeploymentStore } from '../rows.ts'
import type { CreateDeployment } from './create.ts'
import type { DeploymentDetails } from './detail.ts'
import { itemOf } from './presentation.ts'

/** Deployments as owners create and read them. */
export interface Deployments {
  readonly create: CreateDeployment
  list(project: TenantProject, page: PageRequest): Promise<Page<ResponseBody<'deployments.list'>>>
  /** Throws `not_found`. */
  get(project: TenantProject, id: string): Promise<ResponseBody<'deployments.get'>>
}

export function createDeployments(dependencies: {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'ofProjects'>
  readonly apps: Pick<AppDirectory, 'byIds'>
  readonly details: DeploymentDetails
  readonly create: CreateDeployment
  readonly urlOf: UrlOf
}): Deployments {
  const { database, store, apps, details, create, urlOf } = dependencies
  return {
    create,

    async list(project, page) {
      const { rows, next } = await store.ofProjects.list(project.id, page)
      const known = await apps.byIds(
        database,
        rows.map((row) => row.app_id),
      )
      const deployments = rows.flatMap((row) => {
        const app = known.get(row.app_id)
        // Deleted between the two reads.
        return app === undefined ? [] : [itemOf(row, app, urlOf)]
      })
      return { body: { deployments }, next }
    },

    get: async (project, id) => details.show(await details.find(database, project, id)),
  }
}
