import { ApiError, type ResponseBody } from '@fairlead/server/client'

export type Detail = ResponseBody<'deployments.get'>

/** The deployment as last seen. The answer to its creation has no commit yet. */
export type Deployment = Pick<Detail, 'id' | 'status' | 'url' | 'created_at'> &
  Partial<Pick<Detail, 'commit' | 'started_at' | 'finished_at' | 'steps'>>

/** The result of a deployment. Only `running`, and `accepted` for steps that do not wait, are successes. */
export type Outcome =
  /** `accepted` means that the server has accepted the deployment and the step does not wait for it. */
  | { readonly kind: 'accepted' | 'running' | 'superseded' | 'deleted'; readonly deployment: Deployment }
  | { readonly kind: 'failed'; readonly deployment: Deployment; readonly failure: Detail['failure'] }
  /** The server deployed another commit than the requested one. */
  | { readonly kind: 'mismatch'; readonly deployment: Deployment }
  /** The time limit was exceeded, or the run was cancelled. `deployment` is its state after the request to cancel it. */
  | {
      readonly kind: 'timeout' | 'cancelled'
      readonly deployment?: Deployment
      /** The error of the last request, if that failed. */
      readonly error?: unknown
      /** False when no request to create the deployment has reached the server. */
      readonly maySend: boolean
    }
  /** The deployment could not be created. */
  | { readonly kind: 'refused'; readonly error: unknown }
  /** The deployment was created, but its state can no longer be read. */
  | { readonly kind: 'lost'; readonly deployment: Deployment; readonly error: unknown }

/** Returns the outcome of a deployment's state; `undefined` while it is building. */
export function outcomeOf(deployment: Detail, commit: string | undefined): Outcome | undefined {
  if (commit && deployment.commit && deployment.commit !== commit) return { kind: 'mismatch', deployment }
  switch (deployment.status) {
    case 'running':
    case 'superseded':
      return { kind: deployment.status, deployment }
    case 'building':
      return undefined
    default:
      // Includes final states that a newer server may add.
      return { kind: 'failed', deployment, failure: deployment.failure }
  }
}

/**
 * Returns the answer if it is a deployment. The client does not validate answers, and another program may be listening at
 * the address.
 * @throws ApiError `server_error`
 */
export function requireDeployment<T extends Deployment>(answer: T): T {
  const {
    id,
    status,
    url,
    created_at,
    commit,
    started_at,
    finished_at,
    failure,
  }: Partial<Record<keyof Detail, unknown>> = Object(answer)
  const texts = [id, status, url, created_at, commit ?? '', started_at ?? '', finished_at ?? '', ...textsOf(failure)]
  if (texts.every((part) => typeof part === 'string')) return answer
  throw new ApiError('server_error', 'The answer is not a deployment.', { status: 200 })
}

/** Returns the fields of a failure that must be text; empty without a failure. */
function textsOf(failure: unknown): readonly unknown[] {
  if (failure === undefined || failure === null) return []
  const { stage, code, message }: Partial<Record<keyof NonNullable<Detail['failure']>, unknown>> = Object(failure)
  return [stage, code, message]
}
