import { saveState, setOutput, setSecret } from '@actions/core'
import type { Progress } from './api/deploy.ts'
import type { Deployment } from './api/outcome.ts'
import { secretsIn } from './inputs/env-vars.ts'
import type { Inputs } from './inputs/inputs.ts'
import { logLine, type OpenGroup, withCommands } from './log.ts'
import { states } from './states.ts'

/** The inputs for progress and masks. */
type ShownInputs = Pick<Inputs, 'apiUrl' | 'gitUrl' | 'name' | 'branch' | 'commit' | 'image' | 'variables'>

/** Writes the progress of a deployment to the log, the outputs and the state for the post step. */
export function createProgress(
  inputs: ShownInputs,
  /** The group of the build log, closed before other lines. */
  group: Pick<OpenGroup, 'close'>,
  /** Returns the elapsed time, formatted. */
  took: () => string,
): Progress {
  let known: Deployment | undefined
  return {
    created(created) {
      saveState(states.deployment, created.id)
      maskVariables(inputs, created)
      known = created
      setOutput('deployment-id', created.id)
      setOutput('url', created.url)
      setOutput('status', created.status)
      setOutput('created-at', created.created_at)
      logLine(`Deployment ${created.id}, to be served at ${created.url}`)
      logLine(`${created.status} · ${took()}`)
    },
    changed(seen) {
      const { commit } = seen
      if (commit && commit !== known?.commit) withCommands(() => setOutput('commit', commit))
      if (seen.status !== known?.status) {
        group.close()
        setOutput('status', seen.status)
        logLine(`${seen.status} · ${took()}`)
      }
      known = seen
    },
  }
}

/** The line of the server's log that says how many builds come before a waiting build. */
const wait = /^Waiting for a build slot: \d+ builds? (is|are) ahead\.$/

/**
 * Prints the lines of a build log in a group. The reason for a wait is printed before the group, which readers see
 * folded.
 */
export function createLogPrinter(group: OpenGroup, took: () => string): (lines: readonly string[]) => void {
  return (lines) => {
    const waited = lines.findLast((line) => wait.test(line))
    const others = lines.filter((line) => !wait.test(line))
    if (waited !== undefined) {
      group.close()
      logLine(`${waited} · ${took()}`)
    }
    if (others.length > 0) group.print(others)
  }
}

/** Masks the values of the variables. Called when the deployment is known, because its address must stay readable. */
export function maskVariables(inputs: ShownInputs, deployment?: Deployment): void {
  const { apiUrl, gitUrl, name, branch, commit, image } = inputs
  const visible = [apiUrl, gitUrl, name, branch, commit, image, deployment?.url ?? '', deployment?.id ?? '']
  for (const secret of secretsIn(inputs.variables, visible)) setSecret(secret)
}
