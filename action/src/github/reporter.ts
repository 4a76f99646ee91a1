import { markerOf, writeComment } from './comment.ts'
import {
  createDeployment,
  type DeploymentState,
  type DeploymentStatus,
  retireDeployments,
  setStatus,
} from './deployments.ts'
import { openRepository, type Repository } from './octokit.ts'

/** The app as it is shown at GitHub. */
export interface ReportedApp {
  readonly projectId: string
  /** The app's name. */
  readonly name: string
  /** Empty when not given. */
  readonly environment: string
  readonly preview: boolean
  /** A commit or a branch. */
  readonly ref: string
  /** The pull request that gets a comment. */
  readonly pullRequest: number | undefined
}

export interface GitHubReporterOptions {
  /** Of GitHub's API. */
  readonly token: string
  readonly app: ReportedApp
  /** Called once for each different problem. */
  readonly warn: (message: string) => void
}

/** Shows a deployment at GitHub. Its methods never reject, because a deployment does not depend on them. */
export interface GitHubReporter {
  /** Resolves to the id of the deployment at GitHub, if one was created. */
  started(): Promise<number | undefined>
  ended(end: {
    readonly state: DeploymentState
    /** One line. */
    readonly description: string
    readonly url: string | undefined
    /** For the comment. */
    readonly markdown: string
  }): Promise<void>
  /** Reports that the app was removed. */
  removed(): Promise<void>
}

export function createGitHubReporter({ token, app, warn }: GitHubReporterOptions): GitHubReporter {
  const { environment, pullRequest } = app
  const marker = markerOf(app.projectId, app.name)
  const attempt = createAttempt(warn)
  let deployment: number | undefined
  let opened: Promise<Repository> | undefined
  const open = () => {
    opened ??= openRepository(token)
    return opened
  }

  const comment = async (text: string, mayCreate: boolean) => {
    if (pullRequest === undefined) return
    await attempt('comment on the pull request', async () =>
      writeComment(await open(), { pullRequest, marker, text, mayCreate }),
    )
  }

  return {
    async started() {
      if (environment === '') return undefined
      await attempt(`show the deployment to ${environment}`, async () => {
        const repository = await open()
        deployment = await createDeployment(repository, { ...app, marker })
        await setStatus(repository, deployment, { state: 'in_progress', description: 'Deploying to Fairlead' })
      })
      return deployment
    },

    async ended({ state, description, url, markdown }) {
      const id = deployment
      if (id !== undefined) {
        const status: DeploymentStatus = { state, description, ...(url ? { environmentUrl: url } : {}) }
        await attempt(`show the deployment to ${environment}`, async () => setStatus(await open(), id, status))
      }
      await comment(markdown, true)
    },

    async removed() {
      if (environment !== '') {
        await attempt(`show the end of the deployments to ${environment}`, async () =>
          retireDeployments(await open(), { environment, marker }),
        )
      }
      await comment('The app of this pull request was removed.\n', false)
    },
  }
}

/** Reports that the run was cancelled; for the post step. Never rejects. */
export async function markAborted(token: string, id: number): Promise<void> {
  const status: DeploymentStatus = { state: 'error', description: 'The run was cancelled.' }
  await openRepository(token)
    .then((repository) => setStatus(repository, id, status))
    .catch(() => undefined)
}

/** Returns a function that runs a task and turns its failure into a warning, the same one only once. */
function createAttempt(warn: (message: string) => void): (action: string, task: () => Promise<void>) => Promise<void> {
  const reported = new Set<string>()
  return async (action, task) => {
    try {
      await task()
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      if (!reported.has(message)) warn(`The action cannot ${action}: ${message}`)
      reported.add(message)
    }
  }
}
