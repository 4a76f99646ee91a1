import { ApiError } from '../../contract/errors.ts'
import type { DeploymentRow } from '../tables.ts'

export type Verb = 'cancel' | 'stop' | 'rollback' | 'restart' | 'delete'

const participles: Readonly<Record<Verb, string>> = {
  cancel: 'canceled',
  stop: 'stopped',
  rollback: 'rolled back to',
  restart: 'restarted',
  delete: 'deleted',
}

/** The advice to the reader, by the action and the state. */
const advice: Readonly<Record<Verb, Partial<Record<DeploymentRow['status'], string>>>> = {
  cancel: { running: 'Stop it instead.' },
  stop: { building: 'Cancel it instead.' },
  rollback: { building: 'Wait for its end, or cancel it.', running: 'Restart it to start it anew.' },
  restart: { building: 'Wait for its end, or cancel it.' },
  delete: { building: 'Cancel it first.', running: 'Stop it first.' },
}

/** Returns the error for a change that the deployment's state does not allow. */
export function refusal(row: DeploymentRow, verb: Verb): ApiError {
  const notRetained = (verb === 'rollback' || verb === 'restart') && !row.retained
  const why = advice[verb][row.status] ?? (notRetained ? 'Its release is not kept. Create a new deployment.' : '')
  const message = `This deployment is ${row.status} and cannot be ${participles[verb]}. ${why}`.trimEnd()
  return new ApiError('invalid_request', message, { status: row.status })
}

/** Returns the error for the restart of a deployment beside another active one of its app. */
export function otherIsActive(row: DeploymentRow, other: DeploymentRow): ApiError {
  const message =
    other.status === 'running'
      ? `${other.id} runs at the address of this app. Roll back to ${row.id} instead.`
      : `${other.id} of the same app is building. Wait for its end, or cancel it.`
  return new ApiError('invalid_request', message, { status: row.status })
}
