import { readFileSync } from 'node:fs'
import { createClient } from '@fairlead/server/client'
import { createKeys } from './api/key.ts'
import type { Environment } from './event.ts'
import { createGitHubReporter, type GitHubReporter } from './github/reporter.ts'
import { createProxiedFetch, withTimeout } from './http.ts'
import type { Access, Inputs } from './inputs/inputs.ts'

/** Time limit for an answer in milliseconds. It does not apply to the log. */
const answerTimeout = 30_000
/** Maximum number of retries of a request. With growing pauses, they take about half a minute. */
const retries = 6

/** Creates the clients of the server: one for requests, and one without time limit and retries for following the log. */
export function createClients(access: Access, env: Environment) {
  const proxied = createProxiedFetch(env)
  const apiKey = access.apiKey || createKeys(access, env, proxied).key
  const options = { baseUrl: `${access.apiUrl}/v1`, apiKey }
  return {
    api: createClient({ ...options, retries, fetch: withTimeout(answerTimeout, proxied) }),
    logs: createClient({ ...options, retries: 0, fetch: proxied }),
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
