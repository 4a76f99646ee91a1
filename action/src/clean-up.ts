import { cancelRemote } from './api/cancel.ts'
import { createClients, gitHubAccess, runUrlOf } from './context.ts'
import type { Environment } from './event.ts'
import { reasonOf } from './explain.ts'
import { markAborted } from './github/reporter.ts'
import { readAccessInputs } from './inputs/inputs.ts'
import { logLine } from './log.ts'
import { getInput, getState } from './runner.ts'
import { states } from './states.ts'

/** Runs after a step that was killed: cancels its deployment at the server. Never fails the job. */
export async function cleanUp(env: Environment): Promise<void> {
  const id = getState(states.deployment)
  const read = readAccessInputs(getInput)
  if (id === '' || getState(states.ended) !== '' || !('inputs' in read)) return
  const { projectId } = read.inputs
  const last = await cancelRemote(createClients(read.inputs, env).api, { project_id: projectId, id })
  logLine(
    'seen' in last
      ? `The step was killed; its deployment ${id} is ${last.seen.status}.`
      : `The step was killed; its deployment ${id} could not be cancelled: ${reasonOf(last.error)}`,
  )
  const shown = Number(getState(states.gitHubDeployment))
  const access = gitHubAccess(env, getInput('github-token'))
  if (shown === 0 || access === undefined) return
  await markAborted(access, shown, runUrlOf(env))
}
