import { readFileSync } from 'node:fs'
import { debug, isDebug } from '@actions/core'
import { createClient } from '@fairlead/server/client'
import type { Attempts } from './api/attempts.ts'
import { createKeys } from './api/key.ts'
import type { Environment } from './event.ts'
import { createGitHubReporter, type GitHubReporter } from './github/reporter.ts'
import { createProxiedFetch, withTimeout } from './http.ts'
import type { Access, Inputs } from './inputs/inputs.ts'
import { oneLine, withCommands } from './log.ts'

/** Time limit for an answer in milliseconds. It does not apply to the log. */
const answerTimeout = 30_000

/**
 * Creates the clients of the server: one for requests, which are repeated until their signals abort, and one for
 * following the log, without time limit and retries.
 */
export function createClients(access: Access, env: Environment, attempts: Attempts) {
  const proxied = createProxiedFetch(env)
  const repetitions = { retries: Number.POSITIVE_INFINITY, onRetry: attempts.failed }
  const apiKey = access.apiKey || createKeys(access, env, { fetch: proxied, ...repetitions }).key
  const options = { baseUrl: `${access.apiUrl}/v1`, apiKey }
  const limited = withTimeout(answerTimeout, proxied)
  const watched: typeof fetch = async (input, init) => {
    const response = await limited(input, init)
    if (isDebug()) {
      const { method = 'GET' } = init ?? {}
      withCommands(() => debug(oneLine(`${method} ${String(input)}: status ${response.status}`)))
    }
    if (response.status < 500 && response.status !== 429) attempts.answered()
    return response
  }
  return {
    api: createClient({ ...options, ...repetitions, fetch: watched }),
    logs: createClient({ ...options, retries: 0, fetch: proxied }),
  }
}

/**
 * True when a server answers at the address, which may have a proxy's path.
 */
export async function isServer({ apiUrl }: Pick<Access, 'apiUrl'>, env: Environment): Promise<boolean> {
  try {
    const answer = await withTimeout(answerTimeout, createProxiedFetch(env))(`${apiUrl}/healthz`, {
      redirect: 'manual',
    })
    const { status } = Object(await answer.json()) as { readonly status?: unknown }
    return answer.ok && status === 'alive'
  } catch {
    return false
  }
}

/** Returns the event's payload; `undefined` when there is none. */
export function readPayload(env: Environment): unknown {
  try {
    return JSON.parse(readFileSync(env['GITHUB_EVENT_PATH'] ?? '', 'utf8'))
  } catch {
    return undefined
  }
}

/** Returns the address of a deployment in the dashboard. */
export function dashboardLink({ apiUrl, projectId }: Access, deploymentId: string): string {
  return `${apiUrl}/projects/${encodeURIComponent(projectId)}/deployments/${encodeURIComponent(deploymentId)}`
}

/** Returns the token for GitHub's API; `undefined` when there is none, or no repository. */
export function gitHubToken(env: Environment, token: string): string | undefined {
  return token && env['GITHUB_REPOSITORY'] ? token : undefined
}

/** Creates the reporter to GitHub; `undefined` when there is nothing to report or no access. */
export function gitHubReporter(
  inputs: Inputs,
  env: Environment,
  pullRequest: number | undefined,
  warn: (message: string) => void,
): GitHubReporter | undefined {
  const commented = inputs.comment ? pullRequest : undefined
  const token = gitHubToken(env, inputs.githubToken)
  if (token === undefined || (inputs.environment === '' && commented === undefined)) return undefined
  const { projectId, name, environment, preview, commit, branch } = inputs
  const app = { projectId, name, environment, preview, ref: commit || branch, pullRequest: commented }
  return createGitHubReporter({ token, app, warn })
}
