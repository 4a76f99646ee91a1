import { setOutput, warning } from '@actions/core'
import { createAttempts } from './api/attempts.ts'
import { removeApp } from './api/remove.ts'
import { createClients, gitHubReporter } from './context.ts'
import type { Environment } from './event.ts'
import { codeOf, explain } from './explain.ts'
import type { Inputs } from './inputs/inputs.ts'
import { fail, logLine } from './log.ts'
import { shortSummary, writeSummary } from './report/summary.ts'

/** Removes the app of a closed pull request and updates GitHub. */
export async function removeStep(
  inputs: Inputs,
  env: Environment,
  pullRequest: number,
  signal: AbortSignal,
): Promise<void> {
  const { projectId, name, apiUrl, timeoutSeconds } = inputs
  logLine(`Removing ${name}: the pull request is closed`)
  const summaryFile = env['GITHUB_STEP_SUMMARY']
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutSeconds * 1000)])
  const attempts = createAttempts(logLine, limit)
  try {
    const { api } = createClients(inputs, env, attempts)
    const removed = await removeApp({ client: api, projectId, name, signal: limit })
    const told =
      removed === 0
        ? `There is no app ${name}.`
        : `${name} was removed with its ${removed === 1 ? 'deployment' : `${removed} deployments`}.`
    logLine(told)
    await writeSummary(shortSummary('Removed', [told]), summaryFile)
  } catch (error) {
    setOutput('failure-code', codeOf(error))
    const messages = explain(attempts.lastError ?? error, apiUrl)
    for (const message of messages) fail(message)
    await writeSummary(shortSummary(`Not removed: ${name}`, messages), summaryFile)
    return
  } finally {
    attempts.end()
  }
  setOutput('status', 'removed')
  const github = gitHubReporter(inputs, env, pullRequest, (message) => warning(message, { title: 'Fairlead' }))
  await github?.removed()
}
