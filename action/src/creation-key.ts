import { createHash } from 'node:crypto'
import type { BodyInput } from '@fairlead/server/client'
import type { Environment } from './event.ts'

/**
 * Returns the Idempotency-Key of this step's deployment. Repeated executions of a step in one attempt have the same
 * key, so that it deploys once. Each attempt, step, project and request body has a different key, because the bodies
 * differ between the jobs of a matrix. `undefined` outside of a workflow.
 */
export function creationKey(
  env: Environment,
  projectId: string,
  body: BodyInput<'deployments.create'>,
): string | undefined {
  const variables = ['GITHUB_REPOSITORY', 'GITHUB_RUN_ID', 'GITHUB_RUN_ATTEMPT', 'GITHUB_JOB', 'GITHUB_ACTION']
  if (!env['GITHUB_RUN_ID']) return undefined
  const parts = [...variables.map((variable) => env[variable] ?? ''), projectId, body]
  return `action-${createHash('sha256').update(JSON.stringify(parts)).digest('hex')}`
}
