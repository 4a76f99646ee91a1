import { notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { App, AppDirectory } from '../app-directory.ts'
import type { UrlOf } from '../outcome.ts'
import type { DeploymentStore } from '../rows.ts'
import type { DeploymentSecrets } from '../secrets.ts'
import type { DeploymentWithLatest } from '../tables.ts'
import { detailOf } from './presentation.ts'

/** A deployment with its app. */
export interface FoundDeployment {
  readonly row: DeploymentWithLatest
  readonly app: App
}

/** Reads one deployment within a project, and shows it. */
export interface DeploymentDetails {
  /** Throws `not_found`. */
  find(on: Database | Transaction, project: TenantProject, id: string): Promise<FoundDeployment>
  show(found: FoundDeployment): ResponseBody<'deployments.get'>
}

export function createDeploymentDetails({
  store,
  apps,
  secrets,
  urlOf,
}: {
  readonly store: Pick<DeploymentStore, 'ofProjects'>
  readonly apps: Pick<AppDirectory, 'byIds'>
  readonly secrets: Pick<DeploymentSecrets, 'variablesOf'>
  readonly urlOf: UrlOf
}): DeploymentDetails {
  return {
    async find(on, project, id) {
      const row = await store.ofProjects.get(on, project.id, id)
      if (row === undefined) throw notFound()
      const app = (await apps.byIds(on, [row.app_id])).get(row.app_id)
      // Deleted between the two reads.
      if (app === undefined) throw notFound()
      return { row, app }
    },
    show: ({ row, app }) => detailOf(row, app, secrets.variablesOf(row), urlOf),
  }
}
