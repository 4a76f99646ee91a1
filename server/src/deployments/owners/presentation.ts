import type { ResponseBody } from '../../contract/operations.ts'
import type { UrlOf } from '../state/announce.ts'
import type { App } from '../state/apps.ts'
import type { DeploymentRow, DeploymentWithLatest } from '../state/tables.ts'
import type { Variables } from '../state/variables.ts'

/** Shows a deployment as lists and creations do. */
export function itemOf(row: DeploymentRow, app: App, urlOf: UrlOf): ResponseBody<'deployments.create'> {
  return {
    id: row.id,
    name: app.name,
    status: row.status,
    url: urlOf(app),
    created_at: row.created_at.toISOString(),
  }
}

/** Shows one deployment as a whole, except for the values of its variables. */
export function detailOf(
  row: DeploymentWithLatest,
  app: App,
  variables: Variables,
  urlOf: UrlOf,
): ResponseBody<'deployments.get'> {
  return {
    ...itemOf(row, app, urlOf),
    project_id: row.project_id,
    git_url: row.git_url,
    branch: row.branch,
    commit: row.commit,
    env_var_names: Object.keys(variables).sort(),
    latest_id: row.latest_id,
    failure: row.failure,
    started_at: row.started_at?.toISOString() ?? null,
    finished_at: row.finished_at?.toISOString() ?? null,
  }
}
