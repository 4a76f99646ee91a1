import { readFileSync } from 'node:fs'
import { createClient } from '@fairlead/server/client'
import type { Environment } from './event.ts'
import { createGitHubSide, type GitHubSide } from './github/side.ts'
import { createProxiedFetch, within } from './http.ts'
import type { Access, Inputs } from './inputs.ts'

/** No answer takes longer than this, in milliseconds; the log alone may. */
const answerLimit = 30_000
/** How often the client repeats a request by itself, with longer and longer pauses: for about half a minute. */
const retries = 6

/** The clients of the server: one for questions, and one for the log, which goes on and on and is asked for again. */
export function createClients({ apiUrl, apiKey }: Access, env: Environment) {
  const options = { baseUrl: `${apiUrl}/v1`, apiKey }
  const proxied = createProxiedFetch(env)
  return {
    api: createClient({ ...options, retries, fetch: within(answerLimit, proxied) }),
    logs: createClient({ ...options, retries: 0, fetch: proxied }),
  }
}

/** The event's payload; `undefined` when there is none. */
export function readPayload(env: Environment): unknown {
  try {
    return JSON.parse(readFileSync(env['GITHUB_EVENT_PATH'] ?? '', 'utf8'))
  } catch {
    return undefined
  }
}

/** Where the dashboard shows a deployment. */
export function dashboardLink({ apiUrl, projectId }: Access, deploymentId: string): string {
  return `${apiUrl}/projects/${encodeURIComponent(projectId)}/deployments/${encodeURIComponent(deploymentId)}`
}

/** Where GitHub shows the run. */
export function runUrlOf(env: Environment): string {
  return `${env['GITHUB_SERVER_URL']}/${env['GITHUB_REPOSITORY']}/actions/runs/${env['GITHUB_RUN_ID']}`
}

/** What it takes to speak to GitHub; `undefined` when it is not known. */
export function gitHubAccess(env: Environment, token: string) {
  const [apiUrl, repository] = [env['GITHUB_API_URL']?.replace(/\/+$/, ''), env['GITHUB_REPOSITORY']]
  return token && apiUrl && repository ? { apiUrl, repository, token, fetch: createProxiedFetch(env) } : undefined
}

/** GitHub's side; `undefined` when there is nothing to do there. */
export function gitHubSide(
  inputs: Inputs,
  env: Environment,
  pullRequest: number | undefined,
  warn: (message: string) => void,
): GitHubSide | undefined {
  const commented = inputs.comment ? pullRequest : undefined
  const access = gitHubAccess(env, inputs.githubToken)
  if (access === undefined || (inputs.environment === '' && commented === undefined)) return undefined
  const { projectId, name, environment, preview, commit, branch } = inputs
  const about = { projectId, name, environment, preview, ref: commit || branch, pullRequest: commented }
  return createGitHubSide({ ...access, ...about, runUrl: runUrlOf(env), warn })
}
