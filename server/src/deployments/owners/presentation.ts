import { addressOf, publicUrl } from '../../apps/addresses.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { AppsConfig } from '../../platform/config.ts'
import type { DeploymentInFull, DeploymentWithApp } from '../state/store.ts'
import type { Variables } from '../state/variables.ts'

/** A deployment as lists and creations show it. */
export function itemOf(row: DeploymentWithApp, config: AppsConfig): ResponseBody<'deployments.create'> {
  return {
    id: row.id,
    name: row.app_name,
    status: row.status,
    url: publicUrl(addressOf(row), config),
    created_at: row.created_at.toISOString(),
  }
}

/** One deployment as a whole, but for the values of its variables. */
export function detailOf(
  row: DeploymentInFull,
  variables: Variables,
  config: AppsConfig,
): ResponseBody<'deployments.get'> {
  return {
    ...itemOf(row, config),
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
