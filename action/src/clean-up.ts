import { getInput, getState, warning } from '@actions/core'
import { createAttempts } from './api/attempts.ts'
import { cancelRemote } from './api/cancel.ts'
import { endKeys } from './api/key.ts'
import { createClients, gitHubToken, readPayload } from './context.ts'
import { type Environment, readEvent } from './event.ts'
import { reasonOf } from './explain.ts'
import { type GitHubEnd, reportEnd } from './github/reporter.ts'
import { createProxiedFetch } from './http.ts'
import { type Access, readAccessInputs } from './inputs/inputs.ts'
import { logLine, oneLine } from './log.ts'
import { states } from './states.ts'

/** Runs at the end of the job: cancels the deployment of a step that was killed, and ends the job's keys. Never fails the job. */
export async function cleanUp(env: Environment): Promise<void> {
  const read = readAccessInputs(getInput, readEvent(env, readPayload(env)))
  if (!('inputs' in read)) return
  const id = getState(states.deployment)
  if (id !== '' && getState(states.ended) === '') await cancelKilled(read.inputs, id, env)
  const end = getState(states.gitHubEnd)
  if (end !== '') await showEnd(env, JSON.parse(end))
  for (const error of await endKeys(read.inputs.apiUrl, createProxiedFetch(env))) {
    warning(oneLine(`A key of this job could not be ended (${reasonOf(error)}); it expires by itself.`), {
      title: 'Fairlead',
    })
  }
}

async function cancelKilled(access: Access, id: string, env: Environment): Promise<void> {
  const attempts = createAttempts(logLine)
  const { api } = createClients(access, env, attempts)
  const last = await cancelRemote(api, { project_id: access.projectId, id })
  attempts.end()
  logLine(
    'seen' in last
      ? `The step was killed; its deployment ${id} is ${last.seen.status}.`
      : `The step was killed; its deployment ${id} could not be cancelled: ${reasonOf(last.error)}`,
  )
  await showEnd(env, { state: 'error', description: 'The run was cancelled.', url: undefined })
}

async function showEnd(env: Environment, end: GitHubEnd): Promise<void> {
  const shown = Number(getState(states.gitHubDeployment))
  const token = gitHubToken(env, getInput('github-token'))
  if (shown !== 0 && token !== undefined) await reportEnd(token, shown, end)
}
