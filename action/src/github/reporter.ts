import { markerOf, writeComment } from './comment.ts'
import {
  createDeployment,
  type DeploymentState,
  type DeploymentStatus,
  endUnfinished,
  retireDeployments,
  setStatus,
} from './deployments.ts'
import { openRepository, type Repository } from './octokit.ts'

/** The app as GitHub shows it. */
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
  /** The token for GitHub's API. */
  readonly token: string
  readonly app: ReportedApp
  /** Called once for each different problem. */
  readonly warn: (message: string) => void
}

/** The outcome of a deployment, as the main step passes it to the post step. */
export interface GitHubEnd {
  readonly state: DeploymentState
  /** One line. */
  readonly description: string
  readonly url: string | undefined
}

/** Shows a deployment at GitHub. Its methods never reject, because a deployment does not depend on them. */
export interface GitHubReporter {
  /** Resolves to the id of the deployment at GitHub, if one was created. */
  started(): Promise<number | undefined>
  /** Resolves to false when GitHub still shows the deployment as in progress. */
  ended(end: GitHubEnd & { /** For the comment. */ readonly markdown: string }): Promise<boolean>
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
        await endUnfinished(repository, { environment, marker })
        deployment = await createDeployment(repository, { ...app, marker })
        await setStatus(repository, deployment, { state: 'in_progress', description: 'Deploying to Fairlead' })
      })
      return deployment
    },

    async ended({ markdown, ...end }) {
      const id = deployment
      const shown =
        id === undefined ||
        (await attempt(`show the deployment to ${environment}`, async () => setStatus(await open(), id, statusOf(end))))
      await comment(markdown, true)
      return shown
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

/** Reports an outcome that the main step could not report; for the post step. Never rejects. */
export async function reportEnd(token: string, id: number, end: GitHubEnd): Promise<void> {
  await openRepository(token)
    .then((repository) => setStatus(repository, id, statusOf(end)))
    .catch(() => undefined)
}

const statusOf = ({ state, description, url }: GitHubEnd): DeploymentStatus => ({
  state,
  description,
  ...(url ? { environmentUrl: url } : {}),
})

/**
 * Returns a function that runs a task and turns its failure into a warning, each only once. It then resolves to false.
 */
function createAttempt(
  warn: (message: string) => void,
): (action: string, task: () => Promise<void>) => Promise<boolean> {
  const reported = new Set<string>()
  return async (action, task) => {
    try {
      await task()
      return true
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      if (!reported.has(message)) warn(`The action cannot ${action}: ${message}`)
      reported.add(message)
      return false
    }
  }
}
