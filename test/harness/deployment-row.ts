import type { DeploymentRow } from '../../server/src/deployments/state/tables.ts'

/** Returns a deployment's row with these columns and usual values for all others. */
export function deploymentRow(columns: Partial<DeploymentRow> = {}): DeploymentRow {
  return {
    id: 'dep_1',
    project_id: 'proj_1',
    app_id: 'app_1',
    account_id: 'acct_1',
    status: 'building',
    generation: 1,
    retained: false,
    git_url: 'https://example.com/a.git',
    branch: null,
    commit: null,
    variables: Buffer.alloc(0),
    git_token: null,
    build_plan: null,
    runtime: 'process',
    instance: null,
    failure: null,
    attempts: 1,
    created_at: new Date(0),
    started_at: null,
    finished_at: null,
    ...columns,
  }
}
