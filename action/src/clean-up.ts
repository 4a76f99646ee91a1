import { getInput, getState, warning } from '@actions/core'
import { cancelRemote } from './api/cancel.ts'
import { endKeys } from './api/key.ts'
import { createClients, gitHubToken, readPayload } from './context.ts'
import { type Environment, readEvent } from './event.ts'
import { reasonOf } from './explain.ts'
import { markAborted } from './github/reporter.ts'
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
  for (const error of await endKeys(read.inputs.apiUrl, createProxiedFetch(env))) {
    warning(oneLine(`A key of this job could not be ended (${reasonOf(error)}); it expires by itself.`))
  }
}

async function cancelKilled(access: Access, id: string, env: Environment): Promise<void> {
  const last = await cancelRemote(createClients(access, env).api, { project_id: access.projectId, id })
  logLine(
    'seen' in last
      ? `The step was killed; its deployment ${id} is ${last.seen.status}.`
      : `The step was killed; its deployment ${id} could not be cancelled: ${reasonOf(last.error)}`,
  )
  const shown = Number(getState(states.gitHubDeployment))
  const token = gitHubToken(env, getInput('github-token'))
  if (shown !== 0 && token !== undefined) await markAborted(token, shown)
}
