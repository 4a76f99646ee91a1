import { markerOf, writeComment } from './comment.ts'
import {
  createDeployment,
  type DeploymentState,
  type DeploymentStatus,
  retireDeployments,
  setStatus,
} from './deployments.ts'
import { createRest, type GitHubAccess } from './rest.ts'

export interface GitHubSideOptions extends GitHubAccess {
  readonly projectId: string
  /** The app's name. */
  readonly name: string
  /** Empty for none. */
  readonly environment: string
  readonly preview: boolean
  /** The commit or the branch. */
  readonly ref: string
  /** The pull request that gets a comment. */
  readonly pullRequest: number | undefined
  /** Where the run is seen. */
  readonly runUrl: string
  /** Told once for everything that is wrong. */
  readonly warn: (message: string) => void
}

/** What GitHub shows of a deployment. Nothing here rejects: it is a courtesy, and a deployment does not depend on it. */
export interface GitHubSide {
  /** Gives the id of the deployment at GitHub, if there is one. */
  started(): Promise<number | undefined>
  ended(end: {
    readonly state: DeploymentState
    /** One line. */
    readonly description: string
    readonly url: string | undefined
    /** For the comment. */
    readonly markdown: string
  }): Promise<void>
  /** The app was removed. */
  removed(): Promise<void>
}

export function createGitHubSide(options: GitHubSideOptions): GitHubSide {
  const { environment, pullRequest, runUrl: logUrl } = options
  const rest = createRest(options)
  const marker = markerOf(options.projectId, options.name)
  const attempt = warner(options.warn)
  let deployment: number | undefined

  const comment = async (text: string, mayCreate: boolean) => {
    if (pullRequest === undefined) return
    await attempt('comment on the pull request', () => writeComment(rest, { pullRequest, marker, text, mayCreate }))
  }

  return {
    async started() {
      if (environment === '') return undefined
      await attempt(`show the deployment to ${environment}`, async () => {
        deployment = await createDeployment(rest, { ...options, marker })
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

/** For the step that cleans up after one that was killed. */
export async function markAborted(access: GitHubAccess, id: number, logUrl: string): Promise<void> {
  const status: DeploymentStatus = { state: 'error', description: 'The run was cancelled.', logUrl }
  await setStatus(createRest(access), id, status).catch(() => undefined)
}

/** Runs what may go wrong, and tells each thing that does once. */
function warner(warn: (message: string) => void): (what: string, work: () => Promise<void>) => Promise<void> {
  const told = new Set<string>()
  return async (what, work) => {
    try {
      await work()
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      if (!told.has(message)) warn(`The action cannot ${what}: ${message}`)
      told.add(message)
    }
  }
}
