import { createHash } from 'node:crypto'
import type { Environment } from './event.ts'

/**
 * The Idempotency-Key of this step's creation: the same however often one attempt of a job is run, so that it deploys
 * once; another for each attempt, step, project and app. `undefined` outside of a workflow.
 */
export function creationKey(env: Environment, projectId: string, name: string): string | undefined {
  const place = ['GITHUB_REPOSITORY', 'GITHUB_RUN_ID', 'GITHUB_RUN_ATTEMPT', 'GITHUB_JOB', 'GITHUB_ACTION']
  if (!env['GITHUB_RUN_ID']) return undefined
  const parts = [...place.map((variable) => env[variable] ?? ''), projectId, name]
  return `action-${createHash('sha256').update(JSON.stringify(parts)).digest('hex')}`
}
