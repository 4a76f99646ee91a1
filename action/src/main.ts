import { getInput, setFailed, setOutput, setSecret } from '@actions/core'
import { createClient } from '@fairlead/server/client'
import { type Deployment, deploy, type Progress } from './deploy.ts'
import { secretsIn } from './env-vars.ts'
import { reasonOf } from './explain.ts'
import { type Inputs, readInputs } from './inputs.ts'
import { elapsed, logLine, logRaw } from './log.ts'
import { type Report, reportOf } from './report.ts'
import { summaryOf, writeSummary } from './summary.ts'

async function main(): Promise<void> {
  const apiKey = getInput('api-key')
  if (apiKey !== '') setSecret(apiKey)
  // Until a deployment is known; the last value of an output counts.
  setOutput('status', 'failed')
  const read = readInputs(getInput, process.env)
  if ('inputs' in read) return await run(read.inputs)
  for (const { input, message } of read.problems) setFailed(`\`${input}\`: ${message}`)
}

async function run(inputs: Inputs): Promise<void> {
  const start = performance.now()
  const took = () => elapsed(performance.now() - start)
  const cancelled = new AbortController()
  const cancel = () => cancelled.abort()
  process.on('SIGINT', cancel).on('SIGTERM', cancel)

  const progress: Progress = {
    created(created) {
      hideVariables(inputs, created)
      setOutput('deployment-id', created.id)
      setOutput('url', created.url)
      setOutput('status', created.status)
      logLine(`Deployment ${created.id}, to be served at ${created.url}`)
      logLine(`${created.status} · ${took()}`)
    },
    changed: ({ status }) => logLine(`${status} · ${took()}`),
    lost: (error) => logLine(`The server cannot be asked (${reasonOf(error)}); trying again · ${took()}`),
    found: () => logLine(`The server answers again · ${took()}`),
  }

  logLine(`Deploying ${inputs.name}: branch ${inputs.branch} of ${inputs.gitUrl}, by ${inputs.apiUrl}`)
  const outcome = await deploy({
    client: createClient({ baseUrl: `${inputs.apiUrl}/v1`, apiKey: inputs.apiKey }),
    projectId: inputs.projectId,
    body: { name: inputs.name, git_url: inputs.gitUrl, branch: inputs.branch, env_vars: inputs.variables },
    wait: inputs.wait,
    timeout: inputs.timeoutSeconds * 1000,
    signal: cancelled.signal,
    progress,
  })
  const deployment = 'deployment' in outcome ? outcome.deployment : undefined
  if (deployment === undefined) hideVariables(inputs)

  const report = reportOf(outcome, inputs)
  print(report)
  setOutput('status', report.status)
  const facts = { name: inputs.name, branch: inputs.branch, deployment, took: took() }
  await writeSummary(summaryOf(report, facts), process.env['GITHUB_STEP_SUMMARY'])
}

/** Waits for the deployment's address where there is one, because the address must stay readable. */
function hideVariables(inputs: Inputs, deployment?: Deployment): void {
  const { apiUrl, gitUrl, name, branch } = inputs
  const spared = [apiUrl, gitUrl, name, branch, deployment?.url ?? '', deployment?.id ?? '']
  for (const secret of secretsIn(inputs.variables, spared)) setSecret(secret)
}

function print(report: Report): void {
  if (report.output !== undefined) logRaw(report.output)
  for (const message of report.messages) {
    if (report.ok) logLine(message)
    else setFailed(message)
  }
}

try {
  await main()
} catch (error) {
  // A fault of the action or of the runner's files, such as an output that cannot be written.
  setFailed(`The action broke off: ${String(error)}`)
}
