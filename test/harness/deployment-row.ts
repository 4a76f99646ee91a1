import type { DeploymentRow } from '../../server/src/features/deployments/tables.ts'
import type { Release } from '../../server/src/runtimes/runtime.ts'

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
    source_id: null,
    image: null,
    image_digest: null,
    from_deployment_id: null,
    branch: null,
    commit: null,
    root: null,
    commit_details: null,
    triggered_by: { kind: 'key', name: 'test', repository: null, run_url: null, actor: null, event: null },
    variables: Buffer.alloc(0),
    former_values: null,
    variable_origins: { given: [], plain: [] },
    git_token: null,
    superseded_by: null,
    build_plan: null,
    runtime: 'process',
    instance: null,
    failure: null,
    attempts: 1,
    builds_before: null,
    steps: null,
    last_request: null,
    created_at: new Date(0),
    started_at: null,
    finished_at: null,
    ...columns,
  }
}

/** The release of that row, as a runtime sees it. */
export const releaseOfRow: Release = {
  id: 'dep_1',
  appId: 'app_1',
  appNumber: 1,
  projectId: 'proj_1',
  internalName: 'app',
  limits: { memoryBytes: 512_000_000, cpus: 1, diskBytes: 8e9 },
  variables: {},
}
