import type { ResponseBody } from '../../contract/operations.ts'
import type { UrlOf } from '../state/announce.ts'
import type { App } from '../state/apps.ts'
import { imageOf, repositoryOf } from '../state/source/source-of.ts'
import { stepsOf } from '../state/steps.ts'
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
    app_id: row.app_id,
    git_url: repositoryOf(row),
    source_id: row.source_id,
    image: imageOf(row),
    from_deployment_id: row.from_deployment_id,
    branch: row.branch,
    commit: row.commit,
    commit_message: row.commit_details?.message ?? null,
    commit_author: row.commit_details?.author ?? null,
    trigger: row.triggered_by,
    root: row.root,
    env_var_names: Object.keys(variables).sort(),
    latest_id: row.latest_id,
    kept: row.retained,
    failure: row.failure && { suggestions: [], ...row.failure },
    builds_before: row.builds_before ?? row.expected_builds_before,
    steps: [...stepsOf(row)],
    started_at: row.started_at?.toISOString() ?? null,
    finished_at: row.finished_at?.toISOString() ?? null,
  }
}
