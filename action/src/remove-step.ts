import { setFailed, setOutput, warning } from '@actions/core'
import { removeApp } from './api/remove.ts'
import { createClients, gitHubReporter } from './context.ts'
import type { Environment } from './event.ts'
import { codeOf, explain } from './explain.ts'
import type { Inputs } from './inputs/inputs.ts'
import { logLine, oneLine } from './log.ts'

/** Removes the app of a closed pull request and updates GitHub. */
export async function removeStep(
  inputs: Inputs,
  env: Environment,
  pullRequest: number,
  signal: AbortSignal,
): Promise<void> {
  const { projectId, name, apiUrl, timeoutSeconds } = inputs
  logLine(`Removing ${name}: the pull request is closed`)
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutSeconds * 1000)])
  try {
    const removed = await removeApp({ client: createClients(inputs, env).api, projectId, name, signal: limit })
    logLine(
      removed === 0
        ? `There is no app ${name}.`
        : `${name} was removed with its ${removed === 1 ? 'deployment' : `${removed} deployments`}.`,
    )
  } catch (error) {
    setOutput('failure-code', codeOf(error))
    for (const message of explain(error, apiUrl)) setFailed(oneLine(message))
    return
  }
  setOutput('status', 'removed')
  const github = gitHubReporter(inputs, env, pullRequest, warning)
  await github?.removed()
}
