import type { BodyInput } from '../../contract/client.ts'
import type { Deployment, Project } from './apps.ts'
import { Ended } from './command-error.ts'
import type { Connection } from './connection.ts'
import { reasonOfSilence } from './errors.ts'
import { followDeployment, printable } from './follow.ts'
import { say } from './wait.ts'

export interface DeploymentFlags {
  readonly json?: boolean
}

/** Creates a deployment and follows it to its end, as `followToEnd` does. */
export async function runDeployment(
  connection: Connection,
  project: Project,
  body: BodyInput<'deployments.create'>,
  flags: DeploymentFlags,
): Promise<void> {
  const created = await connection.client.deployments.create({ params: { project_id: project.id }, body })
  await followToEnd(connection, project, created, flags)
}

/**
 * Follows a deployment to its end. The log goes to standard error, the address (or the deployment as JSON) to
 * standard output. The exit status is 0 when it runs, 1 when it does not, and 130 after Ctrl+C, which ends nothing but this
 * command.
 */
export async function followToEnd(
  { client }: Connection,
  project: Project,
  { id, name }: Pick<Deployment, 'id' | 'name'>,
  { json }: DeploymentFlags,
): Promise<void> {
  const interrupted = new AbortController()
  const interrupt = () => interrupted.abort()
  process.once('SIGINT', interrupt)
  const print = (line: string) => process.stderr.write(`  ${printable(line)}\n`)
  const params = { project_id: project.id, id }
  const goesOn =
    `The deployment ${id} goes on. To follow it again: fairlead logs -f ${shown(name)}\n` +
    `To cancel it: fairlead api deployments.cancel --project-id ${project.id} --id ${id}\n`
  const log = { params, print, say, signal: interrupted.signal }
  const outcome = await followDeployment(client, log)
    .catch((error: unknown) => {
      if (reasonOfSilence(error) !== undefined) process.stderr.write(goesOn)
      throw error
    })
    .finally(() => process.off('SIGINT', interrupt))
  if (outcome === undefined) {
    process.stderr.write(`\n${goesOn}`)
    throw new Ended(130)
  }
  // Since the command began, so that the upload counts, too.
  const seconds = process.uptime().toFixed(1)
  const steps = stepTimes(outcome)
  if (steps !== '') process.stderr.write(`${steps}\n`)
  if (json) process.stdout.write(`${JSON.stringify(outcome, null, 2)}\n`)
  report(outcome, seconds, json ?? false)
}

/** Returns the duration of each step that has ended, in one line; empty for servers of older versions, which tell none. */
function stepTimes({ steps = [] }: Partial<Pick<Deployment, 'steps'>>): string {
  return steps
    .flatMap(({ name, started_at, finished_at }) => {
      if (finished_at === null) return []
      return `${name} ${((Date.parse(finished_at) - Date.parse(started_at)) / 1000).toFixed(1)} s`
    })
    .join(' · ')
}

function report({ status, url, failure, name }: Deployment, seconds: string, json: boolean): void {
  if (status === 'running') {
    process.stderr.write(`${name} runs after ${seconds} s at:\n`)
    if (!json) process.stdout.write(`${url}\n`)
    return
  }
  process.exitCode = 1
  const reason = failure === null ? '' : `, in the step ${failure.stage} (${failure.code}):\n${failure.message}`
  const lines = `${name} is ${status} after ${seconds} s${reason}`.split('\n').map(printable)
  process.stderr.write(`${lines.join('\n')}\n`)
}

const shown = (name: string): string => (/^[\w.-]+$/.test(name) ? name : JSON.stringify(name))
