import { setTimeout as sleep } from 'node:timers/promises'
import type { BodyInput, Client } from '@fairlead/server/client'
import { isGone, isTransient } from './answers.ts'
import type { BuildLog } from './build-log.ts'
import { cancelRemote, creationGrace, delayed } from './cancel.ts'
import { type Deployment, type Outcome, outcomeOf, requireDeployment } from './outcome.ts'

/** Callbacks for the state of a deployment in progress. */
export interface Progress {
  created(deployment: Deployment): void
  /** Called when the status or the commit has changed. */
  changed(deployment: Deployment): void
  /** Called when the server does not answer. The request is retried. */
  unreachable(error: unknown): void
  reachable(): void
}

export interface DeployOptions {
  readonly client: Client
  readonly projectId: string
  readonly body: BodyInput<'deployments.create'>
  readonly idempotencyKey: string | undefined
  /** True to wait until the deployment runs. */
  readonly wait: boolean
  /** For everything together, in milliseconds. */
  readonly timeout: number
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal
  readonly progress: Progress
  /** Opens the build log of a deployment that is waited for. */
  readonly openLog: (deployment: Deployment) => BuildLog
}

/** Creates a deployment and waits until it runs. Never rejects: failures are outcomes, too. */
export async function deploy(options: DeployOptions): Promise<Outcome> {
  const { client, progress } = options
  const params = { project_id: options.projectId }
  const over = AbortSignal.any([options.signal, AbortSignal.timeout(options.timeout)])
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
    if (options.signal.aborted) return { kind: 'cancelled' }
    return creation.signal.aborted ? { kind: 'timeout' } : { kind: 'refused', error }
  }
  progress.created(deployment)
  return options.wait || over.aborted ? await follow(deployment, over, options) : { kind: 'accepted', deployment }
}

/** Follows the log and polls the deployment until it has an outcome or `over` aborts. */
async function follow(created: Deployment, over: AbortSignal, options: DeployOptions): Promise<Outcome> {
  const { client, progress } = options
  const params = { project_id: options.projectId, id: created.id }
  const log = options.openLog(created)
  let deployment = created
  let lastError: unknown
  for (let polls = 0; !over.aborted; polls++) {
    if (await log.follow(over)) polls = 0
    try {
      const seen = requireDeployment(await client.deployments.get({ params, signal: over }))
      if (lastError !== undefined) progress.reachable()
      lastError = undefined
      if (seen.status !== deployment.status || seen.commit !== deployment.commit) progress.changed(seen)
      deployment = seen
      const outcome = outcomeOf(seen, options.body.commit)
      if (outcome?.kind === 'mismatch') return { kind: 'mismatch', deployment: await cancelBuild(seen, options) }
      if (outcome !== undefined) return outcome
    } catch (error) {
      if (over.aborted) break
      if (isGone(error)) return { kind: 'deleted', deployment }
      if (!isTransient(error)) return { kind: 'lost', deployment, error }
      if (lastError === undefined) progress.unreachable(error)
      lastError = error
    }
    await sleep(pollDelay(polls), undefined, { signal: over }).catch(() => undefined)
  }
  return abandon(deployment, lastError, options)
}

/** Cancels a deployment of the wrong commit if it is still building. */
async function cancelBuild(deployment: Deployment, options: DeployOptions): Promise<Deployment> {
  if (deployment.status !== 'building') return deployment
  const last = await cancelRemote(options.client, { project_id: options.projectId, id: deployment.id })
  return 'seen' in last ? last.seen : deployment
}

/** Cancels a deployment that has not ended within the run. */
async function abandon(deployment: Deployment, lastError: unknown, options: DeployOptions): Promise<Outcome> {
  const kind = options.signal.aborted ? 'cancelled' : 'timeout'
  const last = await cancelRemote(options.client, { project_id: options.projectId, id: deployment.id })
  if (!('seen' in last)) return { kind, deployment, error: lastError ?? last.error }
  options.progress.changed(last.seen)
  const outcome = last.seen.status === 'canceled' ? undefined : outcomeOf(last.seen, options.body.commit)
  // The deployment may have ended just before the request to cancel it; then that outcome counts.
  return outcome !== undefined && kind === 'timeout' ? outcome : { kind, deployment: last.seen }
}

/** Returns the delay after the poll with this number, counted from 0, in milliseconds: from 1 s to 15 s. */
export function pollDelay(polls: number): number {
  return Math.min(15_000, 1_000 * 1.3 ** polls)
}
