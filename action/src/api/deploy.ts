import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError, type BodyInput, type Client } from '@fairlead/server/client'
import { isGone, isTransient } from './answers.ts'
import type { Attempts } from './attempts.ts'
import type { BuildLog } from './build-log.ts'
import { cancelRemote, creationGrace, delayed } from './cancel.ts'
import { type Deployment, type Outcome, outcomeOf, requireDeployment } from './outcome.ts'

/** Callbacks for the state of a deployment in progress. */
export interface Progress {
  created(deployment: Deployment): void
  /** Called when the status or the commit has changed. */
  changed(deployment: Deployment): void
}

export interface DeployOptions {
  readonly client: Client
  readonly projectId: string
  readonly body: BodyInput<'deployments.create'>
  readonly idempotencyKey: string | undefined
  /** True to wait until the deployment runs. */
  readonly wait: boolean
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal
  /** Aborted when the run is cancelled, and when the time limit of the step is over. */
  readonly over: AbortSignal
  readonly progress: Progress
  /** The attempts of the client. */
  readonly attempts: Pick<Attempts, 'lastError' | 'maySend'>
  /** Opens the build log of a deployment for which the step waits. */
  readonly openLog: (deployment: Deployment) => BuildLog
}

/** Creates a deployment and waits until it runs. Never rejects: failures are outcomes, too. */
export async function deploy(options: DeployOptions): Promise<Outcome> {
  const { client, progress, attempts, over } = options
  const params = { project_id: options.projectId }
  using creation = delayed(over, creationGrace)
  let deployment: Deployment
  try {
    deployment = requireDeployment(
      await client.deployments.create({
        params,
        body: options.body,
        signal: creation.signal,
        ...(options.idempotencyKey === undefined ? {} : { idempotencyKey: options.idempotencyKey }),
      }),
    )
  } catch (error) {
    if (!over.aborted || (error instanceof ApiError && !isTransient(error))) return { kind: 'refused', error }
    const kind = options.signal.aborted ? 'cancelled' : 'timeout'
    return { kind, error: attempts.lastError, maySend: attempts.maySend }
  }
  progress.created(deployment)
  return options.wait || over.aborted ? await follow(deployment, options) : { kind: 'accepted', deployment }
}

/** Follows the log and polls the deployment until it has an outcome or `over` aborts. */
async function follow(created: Deployment, options: DeployOptions): Promise<Outcome> {
  const { client, progress, over } = options
  const params = { project_id: options.projectId, id: created.id }
  const log = options.openLog(created)
  let deployment = created
  for (let polls = 0; !over.aborted; polls++) {
    if (await log.follow(over)) polls = 0
    try {
      const seen = requireDeployment(await client.deployments.get({ params, signal: over }))
      if (seen.status !== deployment.status || seen.commit !== deployment.commit) progress.changed(seen)
      deployment = seen
      const outcome = outcomeOf(seen, options.body.commit)
      if (outcome?.kind === 'mismatch') return { kind: 'mismatch', deployment: await cancelBuild(seen, options) }
      if (outcome !== undefined) return outcome
    } catch (error) {
      if (over.aborted) break
      return isGone(error) ? { kind: 'deleted', deployment } : { kind: 'lost', deployment, error }
    }
    await sleep(pollDelay(polls), undefined, { signal: over }).catch(() => undefined)
  }
  return abandon(deployment, options)
}

/** Cancels a deployment of the wrong commit if it is still building. */
async function cancelBuild(deployment: Deployment, options: DeployOptions): Promise<Deployment> {
  if (deployment.status !== 'building') return deployment
  const last = await cancelRemote(options.client, { project_id: options.projectId, id: deployment.id })
  return 'seen' in last ? last.seen : deployment
}

/** Cancels a deployment that has not ended within the run. */
async function abandon(deployment: Deployment, options: DeployOptions): Promise<Outcome> {
  const { lastError } = options.attempts
  const kind = options.signal.aborted ? 'cancelled' : 'timeout'
  const last = await cancelRemote(options.client, { project_id: options.projectId, id: deployment.id })
  if (!('seen' in last)) return { kind, deployment, error: lastError ?? last.error, maySend: true }
  options.progress.changed(last.seen)
  const outcome = last.seen.status === 'canceled' ? undefined : outcomeOf(last.seen, options.body.commit)
  // The deployment may have ended just before the request to cancel it; then its outcome counts.
  return outcome !== undefined && kind === 'timeout' ? outcome : { kind, deployment: last.seen, maySend: true }
}

/** Returns the delay after the poll with this number, counted from 0, in milliseconds: from 1 s to 15 s. */
export function pollDelay(polls: number): number {
  return Math.min(15_000, 1_000 * 1.3 ** polls)
}
