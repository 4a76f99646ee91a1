import { setTimeout as sleep } from 'node:timers/promises'
import { GitHubError, type Repository } from './octokit.ts'

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
  /** The address of the app. */
  readonly environmentUrl?: string
}

/** Creates a deployment at GitHub and returns its id. It does not wait for pending checks of the commit. */
export async function createDeployment({ octokit, name }: Repository, deployment: NewDeployment): Promise<number> {
  const { preview } = deployment
  const { data } = await octokit.rest.repos.createDeployment({
    ...name,
    ref: deployment.ref,
    environment: deployment.environment,
    auto_merge: false,
    required_contexts: [],
    payload: { fairlead: deployment.marker },
    ...(preview ? { transient_environment: true, production_environment: false } : {}),
  })
  // An answer without an id says that GitHub has merged the branch instead.
  if ('id' in Object(data)) return (data as { readonly id: number }).id
  throw new GitHubError('GitHub created no deployment.')
}

/** GitHub's limit for a description, in characters. */
const maximumDescription = 140

/**
 * The pauses between attempts to set a status, in milliseconds: without its final status, a deployment is in progress
 * for ever.
 */
const pausesMs = [1_000, 2_000, 4_000]

export async function setStatus(
  { octokit, name, runUrl }: Repository,
  id: number,
  status: DeploymentStatus,
): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await octokit.rest.repos.createDeploymentStatus({
        ...name,
        deployment_id: id,
        state: status.state,
        description: status.description.slice(0, maximumDescription),
        log_url: runUrl,
        ...(status.environmentUrl === undefined ? {} : { environment_url: status.environmentUrl }),
      })
      return
    } catch (error) {
      const pauseMs = pausesMs[attempt]
      if (pauseMs === undefined || !(error instanceof GitHubError && error.isTemporary)) throw error
      await sleep(pauseMs)
    }
  }
}

/** The highest number of an app's deployments to check, newest first. */
const mostUnfinished = 10

/** Marks the deployments of an app that GitHub still shows as in progress as inactive. A run with `wait: false` leaves one behind. */
export async function endUnfinished(
  repository: Repository,
  app: Pick<NewDeployment, 'environment' | 'marker'>,
): Promise<void> {
  const { octokit, name } = repository
  const { data } = await octokit.rest.repos.listDeployments({ ...name, environment: app.environment, per_page: 100 })
  for (const { id } of data.filter(isOf(app)).slice(0, mostUnfinished)) {
    const { data: last } = await octokit.rest.repos.listDeploymentStatuses({ ...name, deployment_id: id, per_page: 1 })
    if (last[0]?.state !== 'in_progress') continue
    await setStatus(repository, id, { state: 'inactive', description: 'A newer run deploys the app.' })
  }
}

const isOf =
  ({ marker }: Pick<NewDeployment, 'marker'>) =>
  ({ payload }: { readonly payload: unknown }): boolean =>
    (Object(payload) as { fairlead?: unknown }).fairlead === marker

/** The maximum number of pages, of a hundred deployments each, that are marked. */
const maximumPages = 30

/** Marks all deployments of a removed app as inactive at GitHub. */
export async function retireDeployments(
  repository: Repository,
  app: Pick<NewDeployment, 'environment' | 'marker'>,
): Promise<void> {
  const { octokit, name } = repository
  const asked = { ...name, environment: app.environment, per_page: 100 }
  let pages = 0
  for await (const { data } of octokit.paginate.iterator(octokit.rest.repos.listDeployments, asked)) {
    for (const { id } of data.filter(isOf(app))) {
      await setStatus(repository, id, { state: 'inactive', description: 'The app was removed.' })
    }
    if (++pages === maximumPages) return
  }
}
