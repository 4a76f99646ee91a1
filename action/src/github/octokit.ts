import type { getOctokit } from '@actions/github'
import { reasonOf } from '../explain.ts'

/** The workflow's repository at GitHub. */
export interface Repository {
  readonly octokit: ReturnType<typeof getOctokit>
  /** For the parameters of every request. */
  readonly name: { readonly owner: string; readonly repo: string }
  /** The address of the workflow run. */
  readonly runUrl: string
}

/** A missing answer or one other than 2xx. `message` tells the reader what to do. */
export class GitHubError extends Error {
  override readonly name = 'GitHubError'
  /** True when the same request may succeed soon. */
  readonly isTemporary: boolean

  constructor(message: string, isTemporary = false) {
    super(message)
    this.isTemporary = isTemporary
  }
}

/** Time limit for an answer in milliseconds. Short, because reporting to GitHub must not delay a finished deployment. */
const requestTimeout = 10_000

/**
 * Opens the workflow's repository. GitHub's client is large, so it is in a separate file that only this function loads.
 * Its requests reject with `GitHubError`, follow no redirects and go to no other origin, so that the token stays with
 * GitHub.
 */
export async function openRepository(token: string): Promise<Repository> {
  const { context, getOctokit } = await import(/* webpackChunkName: "github" */ '@actions/github')
  const octokit = getOctokit(token, { userAgent: 'fairlead-action' })
  // The hook registered last is called first, so it sees the errors of the other hooks.
  octokit.hook.before('request', (options) => {
    if (new URL(options.url, options.baseUrl).origin !== new URL(options.baseUrl).origin) {
      throw new GitHubError('GitHub named an address of somebody else.')
    }
    Object.assign(options.request, { redirect: 'manual', signal: AbortSignal.timeout(requestTimeout) })
  })
  octokit.hook.after('request', ({ status }) => {
    // The type does not include redirects.
    if (Number(status) >= 300) throw new GitHubError(`GitHub answered with status ${status}.`)
  })
  octokit.hook.error('request', (error) => {
    throw error instanceof GitHubError ? error : new GitHubError(explainRefusal(error), isTemporary(error))
  })
  const { owner, repo } = context.repo
  const runUrl = `${context.serverUrl}/${owner}/${repo}/actions/runs/${context.runId}`
  return { octokit, name: { owner, repo }, runUrl }
}

function isTemporary(error: unknown): boolean {
  const { status, response } = Object(error) as { readonly status?: number; readonly response?: unknown }
  return response === undefined || (status !== undefined && status >= 500)
}

/** Explains the error of a request: an answer in Octokit's form, or no answer. */
function explainRefusal(error: unknown): string {
  const { status, response } = Object(error) as {
    readonly status?: number
    readonly response?: { readonly headers: Readonly<Record<string, string>>; readonly data: unknown }
  }
  if (response === undefined) return `GitHub cannot be reached: ${reasonOf(error)}`
  const { headers, data } = response
  const limited = status === 429 || headers['x-ratelimit-remaining'] === '0' || 'retry-after' in headers
  if (limited) return `GitHub takes no more requests of this token for now (status ${status}).`
  const accepted = headers['x-accepted-github-permissions']
  // GitHub answers 404 when the token may not even know that the resource exists.
  if ((status === 403 || status === 404) && accepted) {
    return `the token lacks a permission. Give the job \`permissions\`: ${permissionsOf(accepted)}.`
  }
  const said = String((Object(data) as { message?: unknown }).message ?? '')
  return `GitHub answered with status ${status}${said === '' ? '' : `: ${said}`}.`
}

/** Formats `pull_requests=write,contents=read; issues=write` as workflows write it. Any one of the alternatives is enough. */
function permissionsOf(header: string): string {
  const alternatives = header
    .split(';')
    .map((alternative) => alternative.trim().replaceAll('_', '-').replaceAll('=', ': ').replace(/, */g, ', '))
  return alternatives.map((alternative) => `{ ${alternative} }`).join(' or ')
}
