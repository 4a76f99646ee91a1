import { GitHubError, type Rest } from './rest.ts'

export interface NewDeployment {
  /** A commit, a branch or a tag. */
  readonly ref: string
  readonly environment: string
  /** True when it is removed together with its pull request. */
  readonly preview: boolean
  /** Identifies the deployments of one app. */
  readonly marker: string
}

/** The states of GitHub that are used here. */
export type DeploymentState = 'in_progress' | 'success' | 'failure' | 'error' | 'inactive'

export interface DeploymentStatus {
  readonly state: DeploymentState
  readonly description: string
  /** The address of the workflow run. */
  readonly logUrl: string
  /** The address of the app. */
  readonly environmentUrl?: string
}

/** Creates a deployment at GitHub and returns its id. It does not wait for pending checks of the commit. */
export async function createDeployment(rest: Rest, deployment: NewDeployment): Promise<number> {
  const { preview } = deployment
  const made = await rest.request('POST', '/deployments', {
    ref: deployment.ref,
    environment: deployment.environment,
    auto_merge: false,
    required_contexts: [],
    payload: { fairlead: deployment.marker },
    ...(preview ? { transient_environment: true, production_environment: false } : {}),
  })
  const { id } = Object(made) as { id?: unknown }
  if (typeof id !== 'number') throw new GitHubError('GitHub created no deployment.')
  return id
}

/** GitHub's limit for a description, in characters. */
const maximumDescription = 140

export async function setStatus(rest: Rest, id: number, status: DeploymentStatus): Promise<void> {
  await rest.request('POST', `/deployments/${id}/statuses`, {
    state: status.state,
    description: status.description.slice(0, maximumDescription),
    log_url: status.logUrl,
    ...(status.environmentUrl === undefined ? {} : { environment_url: status.environmentUrl }),
  })
}

/** Marks all deployments of a removed app as inactive at GitHub. */
export async function retireDeployments(
  rest: Rest,
  app: Pick<NewDeployment, 'environment' | 'marker'>,
  logUrl: string,
): Promise<void> {
  const query = new URLSearchParams({ environment: app.environment, per_page: '100' })
  for await (const deployments of rest.pages(`/deployments?${query}`)) {
    for (const deployment of deployments) {
      const { id, payload } = Object(deployment) as { id?: unknown; payload?: unknown }
      const { fairlead } = Object(payload) as { fairlead?: unknown }
      if (typeof id !== 'number' || fairlead !== app.marker) continue
      await setStatus(rest, id, { state: 'inactive', description: 'The app was removed.', logUrl })
    }
  }
}
