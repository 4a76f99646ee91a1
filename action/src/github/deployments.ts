import { GitHubError, type Rest } from './rest.ts'

export interface NewDeployment {
  /** A commit, a branch or a tag. */
  readonly ref: string
  readonly environment: string
  /** Whether it goes away again, with its pull request. */
  readonly preview: boolean
  /** Tells the deployments of one app from those of others. */
  readonly marker: string
}

/** As GitHub calls them, as far as they are used. */
export type DeploymentState = 'in_progress' | 'success' | 'failure' | 'error' | 'inactive'

export interface DeploymentStatus {
  readonly state: DeploymentState
  readonly description: string
  /** Where the run is seen. */
  readonly logUrl: string
  /** Where the app is. */
  readonly environmentUrl?: string
}

/** Makes a deployment at GitHub, whatever checks the commit still waits for, and gives its id. */
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
  if (typeof id !== 'number') throw new GitHubError('GitHub made no deployment.')
  return id
}

/** GitHub takes no longer description. */
const longestDescription = 140

export async function setStatus(rest: Rest, id: number, status: DeploymentStatus): Promise<void> {
  await rest.request('POST', `/deployments/${id}/statuses`, {
    state: status.state,
    description: status.description.slice(0, longestDescription),
    log_url: status.logUrl,
    ...(status.environmentUrl === undefined ? {} : { environment_url: status.environmentUrl }),
  })
}

/** Tells GitHub that all deployments of an app that was removed are gone. */
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
