import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError, type BodyInput, type Client, type ResponseBody } from '@fairlead/server/client'

type Detail = ResponseBody<'deployments.get'>

/** The deployment as it was last seen. */
export type Deployment = Pick<Detail, 'id' | 'status' | 'url'>

/** How it ended. Only `running`, and `accepted` for those who do not wait, is a success. */
export type Outcome =
  /** Of these, `accepted` means that the server took the deployment and nobody waits for it. */
  | { readonly kind: 'accepted' | 'running' | 'superseded'; readonly deployment: Deployment }
  | { readonly kind: 'failed'; readonly deployment: Deployment; readonly failure: Detail['failure'] }
  /** It was neither running nor failed when the time was over; `trouble` is why it could not be asked last. */
  | { readonly kind: 'timeout'; readonly deployment: Deployment; readonly trouble: unknown }
  /** The run was cancelled; without a deployment nobody knows whether the server took it. */
  | { readonly kind: 'cancelled'; readonly deployment?: Deployment }
  /** The creation did not succeed. */
  | { readonly kind: 'refused'; readonly error: unknown }
  /** The deployment was created and cannot be read any more. */
  | { readonly kind: 'lost'; readonly deployment: Deployment; readonly error: unknown }

/** What is told on the way. */
export interface Progress {
  created(deployment: Deployment): void
  changed(deployment: Deployment): void
  /** The server could not be asked; it is asked again. */
  lost(error: unknown): void
  found(): void
}

export interface DeployOptions {
  readonly client: Client
  readonly projectId: string
  readonly body: BodyInput<'deployments.create'>
  /** Whether to wait until the deployment runs. */
  readonly wait: boolean
  /** For everything together, in milliseconds. */
  readonly timeout: number
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal
  readonly progress: Progress
}

/** No answer takes longer than this, in milliseconds. */
const requestLimit = 30_000
/** What the last look at a deployment may take when the time is over, in milliseconds. */
const lastLookLimit = 2_000

/** Creates a deployment and waits until it runs. Never rejects: what goes wrong is an outcome, too. */
export async function deploy(options: DeployOptions): Promise<Outcome> {
  const { client, signal, progress } = options
  const deadline = performance.now() + options.timeout
  const params = { project_id: options.projectId }
  let deployment: Deployment
  try {
    const limit = Math.min(requestLimit, options.timeout)
    deployment = checked(await client.deployments.create({ params, body: options.body, signal: within(limit, signal) }))
  } catch (error) {
    return signal.aborted ? { kind: 'cancelled' } : { kind: 'refused', error }
  }
  progress.created(deployment)
  return options.wait ? await follow(deployment, deadline, options) : { kind: 'accepted', deployment }
}

async function follow(created: Deployment, deadline: number, options: DeployOptions): Promise<Outcome> {
  const { client, signal, progress } = options
  const params = { project_id: options.projectId, id: created.id }
  let deployment = created
  let trouble: unknown
  for (let polls = 0; ; polls++) {
    try {
      await sleep(Math.max(0, Math.min(pollDelay(polls), deadline - performance.now())), undefined, { signal })
      const limit = Math.min(requestLimit, Math.max(lastLookLimit, deadline - performance.now()))
      const seen = checked(await client.deployments.get({ params, signal: within(limit, signal) }))
      if (trouble !== undefined) progress.found()
      trouble = undefined
      if (seen.status !== deployment.status) progress.changed(seen)
      deployment = seen
      const outcome = outcomeOf(seen)
      if (outcome !== undefined) return outcome
    } catch (error) {
      if (signal.aborted) return { kind: 'cancelled', deployment }
      if (!isTransient(error)) return { kind: 'lost', deployment, error }
      if (trouble === undefined) progress.lost(error)
      trouble = error
    }
    if (performance.now() >= deadline) return { kind: 'timeout', deployment, trouble }
  }
}

function outcomeOf(deployment: Detail): Outcome | undefined {
  switch (deployment.status) {
    case 'running':
    case 'superseded':
      return { kind: deployment.status, deployment }
    case 'building':
      return undefined
    default:
      // Also what a later version of the server may call an end.
      return { kind: 'failed', deployment, failure: deployment.failure }
  }
}

/** How long to wait before the poll of this number, from 0, in milliseconds: from 1 s to 5 s. */
export function pollDelay(polls: number): number {
  return Math.min(5_000, 1_000 * 1.25 ** polls)
}

/** The client trusts the server; an address where something else answers must not pass for a deployment. */
function checked<T extends Deployment>(answer: T): T {
  const given: Partial<Record<keyof Deployment, unknown>> = Object(answer)
  if ([given.id, given.status, given.url].every((part) => typeof part === 'string')) return answer
  throw new ApiError('server_error', 'The answer is not a deployment.', { status: 200 })
}

/** The status of an answer that was not Fairlead's, such as a proxy's page; `undefined` for Fairlead's own errors. */
export function foreignStatus(error: ApiError): number | undefined {
  const status = error.details['status']
  return error.code === 'server_error' && typeof status === 'number' ? status : undefined
}

/** Whether the same question may get an answer later: no answer, a server in trouble, too many requests. */
function isTransient(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true
  const status = foreignStatus(error) ?? error.status
  return status >= 500 || status === 429
}

function within(milliseconds: number, signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(milliseconds))])
}
