import { getInput, getState, notice, saveState, setOutput, setSecret, warning } from '@actions/core'
import { cleanUp } from './clean-up.ts'
import { readPayload } from './context.ts'
import { creationKey } from './creation-key.ts'
import { deployStep } from './deploy-step.ts'
import { dryRun } from './dry-run.ts'
import { type Environment, readEvent } from './event.ts'
import { isExposedInTransit } from './http.ts'
import { type Inputs, readInputs } from './inputs/inputs.ts'
import { fail, logGroup, logLine, oneLine } from './log.ts'
import { removeStep } from './remove-step.ts'
import { shortSummary, writeSummary } from './report/summary.ts'
import { bodyOf } from './request-body.ts'
import { reasonToSkip } from './skip.ts'
import { states } from './states.ts'

async function main(env: Environment): Promise<void> {
  for (const name of ['api-key', 'git-token', 'github-token']) {
    const secret = getInput(name)
    if (secret !== '') setSecret(secret)
  }
  const event = readEvent(env, readPayload(env))
  const skip = reasonToSkip(event, getInput, env['GITHUB_ACTOR'])
  setOutput('skipped', skip !== undefined)
  // Replaced when there is a deployment: the last value of an output counts.
  setOutput('status', skip === undefined ? 'failed' : 'skipped')
  const summaryFile = env['GITHUB_STEP_SUMMARY']
  if (skip !== undefined) {
    notice(oneLine(skip), { title: 'Fairlead' })
    return await writeSummary(shortSummary('Nothing to deploy', [skip]), summaryFile)
  }

  const read = readInputs(getInput, event)
  if ('problems' in read) {
    setOutput('failure-code', 'invalid_input')
    const messages = read.problems.map(({ input, message }) => `\`${input}\`: ${message}`)
    for (const message of messages) fail(message)
    return await writeSummary(shortSummary('Not deployed', messages), summaryFile)
  }
  if (event.caution !== undefined) warning(event.caution, { title: 'Fairlead' })
  await run(read.inputs, env, event.pullRequest)
}

async function run(
  inputs: Inputs,
  env: Environment,
  pullRequest: { readonly number: number; readonly closed: boolean } | undefined,
): Promise<void> {
  if (isExposedInTransit(inputs.apiUrl)) {
    const message = `\`api-url\`: ${inputs.apiUrl} is plain HTTP: the key can be read in transit. Use https://.`
    warning(message, { title: 'Fairlead' })
  }
  const removes = pullRequest?.closed === true
  if (inputs.dryRun) {
    setOutput('skipped', true)
    setOutput('status', 'skipped')
    if (removes) return logLine(`Dry run: the app ${inputs.name} would be removed.`)
    return logGroup('Dry run: this would be sent', dryRun(inputs, creationKey(env, inputs.projectId, bodyOf(inputs))))
  }
  const cancelled = new AbortController()
  const cancel = () => cancelled.abort()
  process.on('SIGINT', cancel).on('SIGTERM', cancel)
  await (removes
    ? removeStep(inputs, env, pullRequest.number, cancelled.signal)
    : deployStep(inputs, env, pullRequest?.number, cancelled.signal))
}

try {
  if (getState(states.started) === '') {
    saveState(states.started, 'true')
    try {
      await main(process.env)
    } finally {
      setOutput('duration-seconds', Math.round(performance.now() / 1000))
    }
  } else {
    await cleanUp(process.env)
  }
} catch (error) {
  // A defect of the action or a problem with the runner's files, such as an output that cannot be written.
  fail(`The action failed unexpectedly: ${String(error)}`)
}
