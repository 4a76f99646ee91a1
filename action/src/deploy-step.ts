import { saveState, setOutput, warning } from '@actions/core'
import type { Client } from '@fairlead/server/client'
import { AddressError, isGone } from './api/answers.ts'
import { createAttempts } from './api/attempts.ts'
import { type BuildLog, createBuildLog, readLogTail } from './api/build-log.ts'
import { deploy } from './api/deploy.ts'
import type { Deployment, Outcome } from './api/outcome.ts'
import { createClients, dashboardLink, gitHubReporter, isServer } from './context.ts'
import { creationKey } from './creation-key.ts'
import type { Environment } from './event.ts'
import type { DeploymentState } from './github/deployments.ts'
import type { GitHubReporter } from './github/reporter.ts'
import type { Inputs } from './inputs/inputs.ts'
import { createOpenGroup, elapsed, fail, logGroup, logLine, withCommands } from './log.ts'
import { createLogPrinter, createProgress, maskVariables } from './progress.ts'
import { type Report, reportOf } from './report/report.ts'
import { stepsOf } from './report/steps.ts'
import { type SummaryFacts, summaryOf, writeSummary } from './report/summary.ts'
import { bodyOf } from './request-body.ts'
import { states } from './states.ts'

/** Deploys, reports the result, and fails the step unless the app runs. */
export async function deployStep(
  inputs: Inputs,
  env: Environment,
  pullRequest: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const start = performance.now()
  const took = () => elapsed(performance.now() - start)
  const group = createOpenGroup('Build log')
  const over = AbortSignal.any([signal, AbortSignal.timeout(inputs.timeoutSeconds * 1000)])
  const attempts = createAttempts((line) => {
    group.close()
    logLine(`${line} · ${took()}`)
  }, over)
  const clients = createClients(inputs, env, attempts)
  const github = gitHubReporter(inputs, env, pullRequest, (message) =>
    withCommands(() => warning(message, { title: 'Fairlead' })),
  )

  logLine(`Deploying ${inputs.name}: ${sourceOf(inputs)}, by ${inputs.apiUrl}`)
  if (inputs.commit !== '') setOutput('commit', inputs.commit)
  // Awaited only at the end, so that it does not delay the deployment.
  const shown = showStart(github, inputs.environment)

  let buildLog: BuildLog | undefined
  let acceptedMs: number | undefined
  const progress = createProgress(inputs, group, took)
  const ended = await deploy({
    client: clients.api,
    projectId: inputs.projectId,
    body: bodyOf(inputs),
    idempotencyKey: creationKey(env, inputs.projectId, bodyOf(inputs)),
    wait: inputs.wait,
    signal,
    over,
    attempts,
    progress: {
      ...progress,
      created(deployment) {
        acceptedMs = performance.now() - start
        progress.created(deployment)
      },
    },
    openLog: ({ id }) => {
      const print = createLogPrinter(group, took)
      buildLog = createBuildLog({ client: clients.logs, params: paramsOf(inputs, { id }), print })
      return buildLog
    },
  })
  group.close()
  attempts.end()
  saveState(states.ended, 'true')
  const outcome = await withAddress(ended, inputs, env)
  const deployment = 'deployment' in outcome ? outcome.deployment : undefined
  if (deployment === undefined) maskVariables(inputs)

  const tail = hasRelevantLog(outcome)
    ? ((await readLogTail(clients.logs, paramsOf(inputs, outcome.deployment))) ?? buildLog?.tail)
    : undefined
  const link = deployment && dashboardLink(inputs, deployment.id)
  const serving = outcome.kind === 'failed' ? await releaseThatServes(clients.logs, inputs) : undefined
  const report = reportOf(outcome, inputs, { tail, link, serving })
  print(report, link)
  setOutput('status', report.status)
  setOutput('failure-code', report.code)
  const commit = deployment?.commit || inputs.commit
  const steps = stepsOf(deployment, acceptedMs, performance.now() - start)
  const facts = { name: inputs.name, branch: inputs.branch, commit, deployment, link, steps }
  await writeSummary(summaryOf(report, facts), env['GITHUB_STEP_SUMMARY'])
  await shown
  await showEnd(github, outcome, report, facts)
}

/** With a path in the address, a 404 may mean that the address is wrong, not the project. */
async function withAddress(outcome: Outcome, inputs: Inputs, env: Environment): Promise<Outcome> {
  if (outcome.kind !== 'refused' || !isGone(outcome.error) || new URL(inputs.apiUrl).pathname === '/') return outcome
  return (await isServer(inputs, env)) ? outcome : { kind: 'refused', error: new AddressError() }
}

/** Returns the app's running deployment, if it is among the newest deployments of the project. */
async function releaseThatServes(
  client: Client,
  { projectId, name }: Inputs,
): Promise<Pick<Deployment, 'id' | 'url'> | undefined> {
  const request = { params: { project_id: projectId }, query: { limit: 100 }, signal: AbortSignal.timeout(5_000) }
  const answer: { readonly deployments?: unknown } = Object(await client.deployments.list(request).catch(() => null))
  const listed: readonly Partial<Deployment & { name: string }>[] = Array.isArray(answer.deployments)
    ? answer.deployments.map(Object)
    : []
  const found = listed.find((each) => each.name === name && each.status === 'running')
  return typeof found?.id === 'string' && typeof found.url === 'string' ? { id: found.id, url: found.url } : undefined
}

/** Shows the deployment as started at GitHub. */
async function showStart(github: GitHubReporter | undefined, environment: string): Promise<void> {
  const id = await github?.started()
  if (id === undefined) return
  withCommands(() => saveState(states.gitHubDeployment, id))
  logLine(`GitHub shows the deployment in ${environment}`)
}

/** Shows the result at GitHub, without the output of the app: a comment may have more readers than the run's log. */
async function showEnd(
  github: GitHubReporter | undefined,
  outcome: Outcome,
  report: Report,
  facts: SummaryFacts,
): Promise<void> {
  const { output: _, ...withoutOutput } = report
  const end = {
    state: gitHubState(outcome),
    description: report.messages[0] ?? '',
    url: facts.deployment?.url,
  }
  const shown = await github?.ended({ ...end, markdown: summaryOf(withoutOutput, facts) })
  if (shown === false) saveState(states.gitHubEnd, JSON.stringify(end))
}

function paramsOf({ projectId }: Inputs, { id }: Pick<Deployment, 'id'>) {
  return { project_id: projectId, id }
}

function sourceOf({ branch, commit, gitUrl, fromDeployment, image }: Inputs): string {
  if (fromDeployment !== '') return `the release of ${fromDeployment}`
  if (image !== '') return `the image ${image}`
  const names = [branch && `branch ${branch}`, commit && `commit ${commit.slice(0, 12)}`].filter((name) => name !== '')
  return `${names.join(', ') || 'the default branch'} of ${gitUrl}`
}

type WithLog = Extract<Outcome, { kind: 'failed' | 'superseded' | 'deleted' | 'mismatch' }>

/** True when the end of the log explains the outcome. */
function hasRelevantLog(
  outcome: Outcome,
): outcome is WithLog | (Outcome & { kind: 'timeout'; deployment: Deployment }) {
  const kinds: readonly Outcome['kind'][] = ['failed', 'superseded', 'deleted', 'mismatch', 'timeout']
  return kinds.includes(outcome.kind) && 'deployment' in outcome && outcome.deployment !== undefined
}

function print(report: Report, link: string | undefined): void {
  for (const message of report.messages) {
    if (report.ok) logLine(message)
    else fail(message)
  }
  if (report.output !== undefined) logGroup('The end of the log', report.output)
  if (link !== undefined) logLine(`See ${link}`)
}

function gitHubState(outcome: Outcome): DeploymentState {
  const states: Partial<Record<Outcome['kind'], DeploymentState>> = {
    running: 'success',
    accepted: 'in_progress',
    superseded: 'inactive',
    deleted: 'inactive',
    failed: 'failure',
    mismatch: 'failure',
  }
  return states[outcome.kind] ?? 'error'
}
