import { createHash } from 'node:crypto'
import type { Environment } from './event.ts'

/**
 * Returns the Idempotency-Key of this step's deployment: the same whenever the step of one attempt is executed again, so
 * that it deploys once; a different one for each attempt, step, project and app. `undefined` outside of a workflow.
 */
export function creationKey(env: Environment, projectId: string, name: string): string | undefined {
  const variables = ['GITHUB_REPOSITORY', 'GITHUB_RUN_ID', 'GITHUB_RUN_ATTEMPT', 'GITHUB_JOB', 'GITHUB_ACTION']
  if (!env['GITHUB_RUN_ID']) return undefined
  const parts = [...variables.map((variable) => env[variable] ?? ''), projectId, name]
  return `action-${createHash('sha256').update(JSON.stringify(parts)).digest('hex')}`
}
