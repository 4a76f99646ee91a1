import type { Inputs } from './inputs/inputs.ts'
import { bodyOf } from './request-body.ts'

const hidden = '***'

/** Returns the lines of the request that would be sent, with all secrets hidden. */
export function dryRun(inputs: Inputs, idempotencyKey: string | undefined): readonly string[] {
  const body = bodyOf(inputs)
  const shown = {
    ...body,
    ...(body.git_token === undefined ? {} : { git_token: hidden }),
    env_vars: Object.fromEntries(Object.keys(inputs.variables).map((name) => [name, hidden])),
  }
  return [
    `POST ${inputs.apiUrl}/v1/projects/${inputs.projectId}/deployments`,
    `Authorization: Bearer ${hidden}`,
    ...(idempotencyKey === undefined ? [] : [`Idempotency-Key: ${idempotencyKey}`]),
    'Content-Type: application/json',
    '',
    ...JSON.stringify(shown, null, 2).split('\n'),
  ]
}
