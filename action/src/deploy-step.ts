import type { BodyInput } from '@fairlead/server/client'
import { type BuildLog, createBuildLog, readLogTail } from './build-log.ts'
import { createClients, dashboardLink, gitHubSide } from './context.ts'
import { creationKey } from './creation-key.ts'
import { type Deployment, deploy, type Outcome, type Progress } from './deploy.ts'
import { secretsIn } from './env-vars.ts'
import type { Environment } from './event.ts'
import { reasonOf } from './explain.ts'
import type { DeploymentState } from './github/deployments.ts'
import type { Inputs } from './inputs.ts'
import { createOpenGroup, elapsed, logGroup, logLine, oneLine } from './log.ts'
import { type Report, reportOf } from './report.ts'
import { saveState, setFailed, setOutput, setSecret, warning } from './runner.ts'
import { states } from './states.ts'
import { summaryOf, writeSummary } from './summary.ts'

/** Deploys, tells all about it, and fails the step unless the app runs. */
export async function deployStep(
  inputs: Inputs,
  env: Environment,
  pullRequest: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const start = performance.now()
  const took = () => elapsed(performance.now() - start)
  const clients = createClients(inputs, env)
  const github = gitHubSide(inputs, env, pullRequest, warning)
  const group = createOpenGroup('Build log')

  logLine(`Deploying ${inputs.name}: ${sourceOf(inputs)}, by ${inputs.apiUrl}`)
  if (inputs.commit !== '') setOutput('commit', inputs.commit)
  // Not waited for: the deployment comes first.
  const shown = github?.started().then((id) => {
    if (id === undefined) return
    saveState(states.gitHubDeployment, id)
    logLine(`GitHub shows the deployment in ${inputs.environment}`)
  })

  let known: Deployment | undefined
  const progress: Progress = {
    created(created) {
      saveState(states.deployment, created.id)
      hideVariables(inputs, created)
      known = created
      setOutput('deployment-id', created.id)
      setOutput('url', created.url)
      setOutput('status', created.status)
      setOutput('created-at', created.created_at)
      logLine(`Deployment ${created.id}, to be served at ${created.url}`)
      logLine(`${created.status} · ${took()}`)
    },
    changed(seen) {
      if (seen.commit && seen.commit !== known?.commit) setOutput('commit', seen.commit)
      if (seen.status !== known?.status) {
        group.close()
        setOutput('status', seen.status)
        logLine(`${seen.status} · ${took()}`)
      }
      known = seen
    },
    lost(error) {
      group.close()
      logLine(`The server cannot be asked (${reasonOf(error)}); trying again · ${took()}`)
    },
    found: () => logLine(`The server answers again · ${took()}`),
  }
  let buildLog: BuildLog | undefined
  const outcome = await deploy({
    client: clients.api,
    projectId: inputs.projectId,
    body: bodyOf(inputs),
    idempotencyKey: creationKey(env, inputs.projectId, inputs.name),
    wait: inputs.wait,
    timeout: inputs.timeoutSeconds * 1000,
    signal,
    progress,
    follow: ({ id }) => {
      buildLog = createBuildLog({ client: clients.logs, params: paramsOf(inputs, { id }), print: group.print })
      return buildLog
    },
  })
  group.close()
  saveState(states.ended, 'true')
  const deployment = 'deployment' in outcome ? outcome.deployment : undefined
  if (deployment === undefined) hideVariables(inputs)

  const tail = isWorthItsLog(outcome)
    ? ((await readLogTail(clients.logs, paramsOf(inputs, outcome.deployment))) ?? buildLog?.tail)
    : undefined
  const report = reportOf(outcome, inputs, tail)
  const link = deployment && dashboardLink(inputs, deployment.id)
  print(report, link)
  setOutput('status', report.status)
  setOutput('duration-seconds', Math.round((performance.now() - start) / 1000))
  const commit = deployment?.commit || inputs.commit
  const facts = { name: inputs.name, branch: inputs.branch, commit, deployment, link, took: took() }
  writeSummary(summaryOf(report, facts), env['GITHUB_STEP_SUMMARY'])

  await shown
  // What was printed may stand in a comment that more people read: the log's end may not.
  const { output: _, ...told } = report
  await github?.ended({
    state: gitHubState(outcome),
    description: report.messages[0] ?? '',
    url: deployment?.url,
    markdown: summaryOf(told, facts),
  })
}

function paramsOf({ projectId }: Inputs, { id }: Pick<Deployment, 'id'>) {
  return { project_id: projectId, id }
}

/** The body of the creation; what is empty is left to the server. */
export function bodyOf(inputs: Inputs): BodyInput<'deployments.create'> {
  return {
    name: inputs.name,
    git_url: inputs.gitUrl,
    ...(inputs.branch === '' ? {} : { branch: inputs.branch }),
    ...(inputs.commit === '' ? {} : { commit: inputs.commit }),
    ...(inputs.gitToken === '' ? {} : { git_token: inputs.gitToken }),
    env_vars: inputs.variables,
  }
}

function sourceOf({ branch, commit, gitUrl }: Inputs): string {
  const names = [branch && `branch ${branch}`, commit && `commit ${commit.slice(0, 12)}`].filter((name) => name !== '')
  return `${names.join(', ')} of ${gitUrl}`
}

/** Waits for the deployment's address where there is one, because the address must stay readable. */
function hideVariables(inputs: Inputs, deployment?: Deployment): void {
  const { apiUrl, gitUrl, name, branch, commit } = inputs
  const spared = [apiUrl, gitUrl, name, branch, commit, deployment?.url ?? '', deployment?.id ?? '']
  for (const secret of secretsIn(inputs.variables, spared)) setSecret(secret)
}

type WithLog = Extract<Outcome, { kind: 'failed' | 'superseded' | 'deleted' | 'mismatch' }>

function isWorthItsLog(outcome: Outcome): outcome is WithLog | (Outcome & { kind: 'timeout'; deployment: Deployment }) {
  const kinds: readonly Outcome['kind'][] = ['failed', 'superseded', 'deleted', 'mismatch', 'timeout']
  return kinds.includes(outcome.kind) && 'deployment' in outcome && outcome.deployment !== undefined
}

function print(report: Report, link: string | undefined): void {
  if (report.output !== undefined) logGroup('The end of the log', report.output)
  for (const message of report.messages) {
    if (report.ok) logLine(message)
    else setFailed(oneLine(message))
  }
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
