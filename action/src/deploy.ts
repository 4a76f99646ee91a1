import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError, type BodyInput, type Client, type ResponseBody } from '@fairlead/server/client'
import { isGone, isTransient } from './answers.ts'
import type { BuildLog } from './build-log.ts'

type Detail = ResponseBody<'deployments.get'>

/** The deployment as it was last seen; an answer to a creation has no commit yet. */
export type Deployment = Pick<Detail, 'id' | 'status' | 'url' | 'created_at'> & Partial<Pick<Detail, 'commit'>>

/** How it ended. Only `running`, and `accepted` for those who do not wait, is a success. */
export type Outcome =
  /** Of these, `accepted` means that the server took the deployment and nobody waits for it. */
  | { readonly kind: 'accepted' | 'running' | 'superseded' | 'deleted'; readonly deployment: Deployment }
  | { readonly kind: 'failed'; readonly deployment: Deployment; readonly failure: Detail['failure'] }
  /** The server deployed another commit than the wanted one. */
  | { readonly kind: 'mismatch'; readonly deployment: Deployment }
  /** The time was over, or the run was cancelled; `deployment` is as it was after the server was told to cancel it. */
  | {
      readonly kind: 'timeout' | 'cancelled'
      readonly deployment?: Deployment
      /** Why the server could not be asked last. */
      readonly trouble?: unknown
    }
  /** The creation did not succeed. */
  | { readonly kind: 'refused'; readonly error: unknown }
  /** The deployment was created and cannot be read any more. */
  | { readonly kind: 'lost'; readonly deployment: Deployment; readonly error: unknown }

/** What is told on the way. */
export interface Progress {
  created(deployment: Deployment): void
  /** Another status or commit. */
  changed(deployment: Deployment): void
  /** The server could not be asked; it is asked again. */
  lost(error: unknown): void
  found(): void
}

export interface DeployOptions {
  readonly client: Client
  readonly projectId: string
  readonly body: BodyInput<'deployments.create'>
  readonly idempotencyKey: string | undefined
  /** Whether to wait until the deployment runs. */
  readonly wait: boolean
  /** For everything together, in milliseconds. */
  readonly timeout: number
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal
  readonly progress: Progress
  /** Called for a deployment that is waited for. */
  readonly follow: (deployment: Deployment) => BuildLog
}

/** The runner kills a cancelled step after 7.5 s; by then the server is told. In milliseconds. */
const endingLimit = 6_000
/** What is left of that for a creation that is under way, so that what comes of it can be cancelled. */
const creationGrace = 3_000

/** Creates a deployment and waits until it runs. Never rejects: what goes wrong is an outcome, too. */
export async function deploy(options: DeployOptions): Promise<Outcome> {
  const { client, progress } = options
  const params = { project_id: options.projectId }
  const over = AbortSignal.any([options.signal, AbortSignal.timeout(options.timeout)])
  using creation = delayed(over, creationGrace)
  let deployment: Deployment
  try {
    deployment = checked(
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

async function follow(created: Deployment, over: AbortSignal, options: DeployOptions): Promise<Outcome> {
  const { client, progress } = options
  const params = { project_id: options.projectId, id: created.id }
  const log = options.follow(created)
  let deployment = created
  let trouble: unknown
  for (let looks = 0; !over.aborted; looks++) {
    if (await log.follow(over)) looks = 0
    try {
      const seen = checked(await client.deployments.get({ params, signal: over }))
      if (trouble !== undefined) progress.found()
      trouble = undefined
      if (seen.status !== deployment.status || seen.commit !== deployment.commit) progress.changed(seen)
      deployment = seen
      const outcome = outcomeOf(seen, options.body.commit)
      if (outcome?.kind === 'mismatch') return { kind: 'mismatch', deployment: await withdraw(seen, options) }
      if (outcome !== undefined) return outcome
    } catch (error) {
      if (over.aborted) break
      if (isGone(error)) return { kind: 'deleted', deployment }
      if (!isTransient(error)) return { kind: 'lost', deployment, error }
      if (trouble === undefined) progress.lost(error)
      trouble = error
    }
    await sleep(lookDelay(looks), undefined, { signal: over }).catch(() => undefined)
  }
  return end(deployment, trouble, options)
}

/** Nobody wants what is being built. */
async function withdraw(deployment: Deployment, options: DeployOptions): Promise<Deployment> {
  if (deployment.status !== 'building') return deployment
  const last = await cancelRemote(options.client, { project_id: options.projectId, id: deployment.id })
  return 'seen' in last ? last.seen : deployment
}

/** The run ends before the deployment does: the server is told, and what it says may still be an outcome. */
async function end(deployment: Deployment, trouble: unknown, options: DeployOptions): Promise<Outcome> {
  const kind = options.signal.aborted ? 'cancelled' : 'timeout'
  const last = await cancelRemote(options.client, { project_id: options.projectId, id: deployment.id })
  if (!('seen' in last)) return { kind, deployment, trouble: trouble ?? last.error }
  options.progress.changed(last.seen)
  const outcome = last.seen.status === 'canceled' ? undefined : outcomeOf(last.seen, options.body.commit)
  // It came to its end just before.
  return outcome !== undefined && kind === 'timeout' ? outcome : { kind, deployment: last.seen }
}

/**
 * Cancels a deployment at the server, within the time that a cancelled step has, and gives it as it is then: one that
 * had come to its end before is as it was.
 */
export async function cancelRemote(
  client: Client,
  params: { readonly project_id: string; readonly id: string },
): Promise<{ readonly seen: Detail } | { readonly error: unknown }> {
  const signal = AbortSignal.timeout(endingLimit - creationGrace)
  try {
    return { seen: checked(await client.deployments.cancel({ params, signal })) }
  } catch (error) {
    if (signal.aborted || isTransient(error)) return { error }
  }
  try {
    return { seen: checked(await client.deployments.get({ params, signal })) }
  } catch (error) {
    return { error }
  }
}

function outcomeOf(deployment: Detail, commit: string | undefined): Outcome | undefined {
  if (commit && deployment.commit && deployment.commit !== commit) return { kind: 'mismatch', deployment }
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

/** How long to wait before the next look, after the look of this number, from 0, in milliseconds: from 1 s to 15 s. */
export function lookDelay(looks: number): number {
  return Math.min(15_000, 1_000 * 1.3 ** looks)
}

/** The client trusts the server; an address where something else answers must not pass for a deployment. */
function checked<T extends Deployment>(answer: T): T {
  const { id, status, url, created_at, commit, failure }: Partial<Record<keyof Detail, unknown>> = Object(answer)
  const texts = [id, status, url, created_at, commit ?? '', ...textsOf(failure)]
  if (texts.every((part) => typeof part === 'string')) return answer
  throw new ApiError('server_error', 'The answer is not a deployment.', { status: 200 })
}

/** What must be text in a failure, if there is one. */
function textsOf(failure: unknown): readonly unknown[] {
  if (failure === undefined || failure === null) return []
  const { stage, code, message }: Partial<Record<keyof NonNullable<Detail['failure']>, unknown>> = Object(failure)
  return [stage, code, message]
}

/** A signal that aborts this long after the other one. */
function delayed(signal: AbortSignal, milliseconds: number): Disposable & { readonly signal: AbortSignal } {
  const later = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const start = () => {
    timer = setTimeout(() => later.abort(signal.reason), milliseconds)
  }
  if (signal.aborted) start()
  else signal.addEventListener('abort', start, { once: true })
  return {
    signal: later.signal,
    [Symbol.dispose]() {
      signal.removeEventListener('abort', start)
      clearTimeout(timer)
    },
  }
}
