import { markerOf, writeComment } from './comment.ts'
import {
  createDeployment,
  type DeploymentState,
  type DeploymentStatus,
  retireDeployments,
  setStatus,
} from './deployments.ts'
import { createRest, type GitHubAccess } from './rest.ts'

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
  readonly access: GitHubAccess
  readonly app: ReportedApp
  /** The address of the workflow run. */
  readonly runUrl: string
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

export function createGitHubReporter({ access, app, runUrl: logUrl, warn }: GitHubReporterOptions): GitHubReporter {
  const { environment, pullRequest } = app
  const rest = createRest(access)
  const marker = markerOf(app.projectId, app.name)
  const attempt = createAttempt(warn)
  let deployment: number | undefined

  const comment = async (text: string, mayCreate: boolean) => {
    if (pullRequest === undefined) return
    await attempt('comment on the pull request', () => writeComment(rest, { pullRequest, marker, text, mayCreate }))
  }

  return {
    async started() {
      if (environment === '') return undefined
      await attempt(`show the deployment to ${environment}`, async () => {
        deployment = await createDeployment(rest, { ...app, marker })
        await setStatus(rest, deployment, { state: 'in_progress', description: 'Deploying to Fairlead', logUrl })
      })
      return deployment
    },

    async ended({ state, description, url, markdown }) {
      const id = deployment
      if (id !== undefined) {
        const status: DeploymentStatus = { state, description, logUrl, ...(url ? { environmentUrl: url } : {}) }
        await attempt(`show the deployment to ${environment}`, () => setStatus(rest, id, status))
      }
      await comment(markdown, true)
    },

    async removed() {
      if (environment !== '') {
        await attempt(`show the end of the deployments to ${environment}`, () =>
          retireDeployments(rest, { environment, marker }, logUrl),
        )
      }
      await comment('The app of this pull request was removed.\n', false)
    },
  }
}

/** Reports that the run was cancelled; for the post step. Never rejects. */
export async function markAborted(access: GitHubAccess, id: number, logUrl: string): Promise<void> {
  const status: DeploymentStatus = { state: 'error', description: 'The run was cancelled.', logUrl }
  await setStatus(createRest(access), id, status).catch(() => undefined)
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
