import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../../platform/logger.ts'
import { limitCodes } from '../../runtimes/limits.ts'
import type { Endpoint, Handle, Release } from '../../runtimes/runtime.ts'
import { DeploymentError, failureOf, limitMessage, seeOutput, withLastLines } from '../failure.ts'
import type { HealthCheck } from '../job/health.ts'
import { type InstanceControl, releaseRef } from '../job/instances.ts'
import { type Routes, stopGraceMs } from '../job/routes.ts'
import { upstreamOf } from '../job/upstream.ts'
import type { Fail } from '../outcome.ts'
import { firstName, web, withLimits } from '../process-types.ts'
import type { LastLines } from '../release-log.ts'
import type { DeploymentStore } from '../rows.ts'
import type { DeploymentSecrets } from '../secrets.ts'
import type { DeploymentRow } from '../tables.ts'
import { createRestarts, type Restarts } from './restarts.ts'

/**
 * Starts a running release again whose instance has ended, when that is due; makes it `failed` in a crash loop.
 *
 * @param replicas returns the endpoints of its other instances of `web`
 */
export type Revive = (
  row: DeploymentRow,
  release: Release,
  replicas: () => Promise<readonly Endpoint[]>,
  signal: AbortSignal,
) => Promise<void>

export interface ReviveDependencies {
  readonly store: { readonly jobs: Pick<DeploymentStore['jobs'], 'runs' | 'setInstance'> }
  readonly instances: Pick<InstanceControl, 'stop' | 'start' | 'halt' | 'observe'>
  readonly routes: Pick<Routes, 'route'>
  readonly checkHealth: HealthCheck
  readonly lastLines: LastLines
  readonly fail: Fail
  readonly secrets: Pick<DeploymentSecrets, 'valuesOf'>
  readonly settings: { readonly startTimeoutMs: number; readonly stableMs: number }
  /** Called each time that an instance of an app is started again. */
  readonly noteRestart: (appId: string) => void
  readonly logger: Logger
}

const crashLoop = 'crash_loop'

export function createRevive(dependencies: ReviveDependencies): Revive {
  const restarts = createRestarts()
  return async (row, release, replicas, signal) => {
    if (restarts.isLoop(row.id, performance.now())) {
      await giveUp(dependencies, restarts, row, await crashed(dependencies, row, release))
    } else if (restarts.isDue(row.id, performance.now())) {
      await startAgain(dependencies, restarts, row, release, { replicas, signal })
    }
  }
}

async function startAgain(
  dependencies: ReviveDependencies,
  restarts: Restarts,
  row: DeploymentRow,
  release: Release,
  { replicas, signal }: { readonly replicas: Parameters<Revive>[2]; readonly signal: AbortSignal },
): Promise<void> {
  const { store, instances, routes, checkHealth, settings, noteRestart, logger } = dependencies
  logger.info({ deployment: row.id }, 'starting the release again')
  restarts.note(row.id, performance.now())
  noteRestart(row.app_id)
  let started: Handle | undefined
  /** The first instance of the release as far as is known here. */
  let first = row.instance
  // Instances of other process types go on.
  const end = async () => started && instances.stop(release, started, { graceMs: 0 })
  try {
    if (row.build_plan === null) throw new DeploymentError('run', 'server_error', 'Its plan is lost. Deploy again.')
    if (row.instance !== null) await instances.stop(release, row.instance, { graceMs: stopGraceMs })
    signal.throwIfAborted()
    const limited = withLimits(release, row.build_plan.processes?.[web] ?? {})
    started = await instances.start(limited, row.runtime, row.build_plan.start, {
      // The name of the one before may still be in use by a replaced instance that finishes its requests.
      beside: true,
      process: firstName(row.instance),
    })
    // From here on a server that stops knows the instance from the row.
    if (!(await store.jobs.setInstance(row, started))) return await end()
    first = started
    const { instance, endpoints } = await checkHealth(
      release,
      started,
      { ...settings, path: row.build_plan.health },
      signal,
    )
    const known = { ...row, instance: first }
    if (instance !== started && !(await store.jobs.setInstance(known, instance))) return await end()
    first = instance
    const more = await replicas()
    // One that was replaced since then is about to end. Then the release is routed to when it is looked at again.
    const mayRoute = async () => (await store.jobs.runs(row)) && isDeepStrictEqual(await replicas(), more)
    await routes.route(row.app_id, upstreamOf(row, [...endpoints, ...more]), mayRoute)
  } catch (error) {
    if (signal.aborted) return
    logger.warn({ err: error, deployment: row.id }, 'the release could not be started again')
    // Only the app itself makes an app fail; whatever the machine could not do now is tried again.
    const isApps = error instanceof DeploymentError
    if (!isApps) restarts.postpone(row.id, performance.now())
    await end()
    if (!isApps) return
    restarts.noteFailure(row.id, performance.now())
    // Another instance may have begun to serve.
    const isLost = restarts.isLoop(row.id, performance.now()) && (await replicas()).length === 0
    if (isLost) await giveUp(dependencies, restarts, { ...row, instance: first }, error)
  }
}

async function crashed(
  { instances, lastLines }: ReviveDependencies,
  row: DeploymentRow,
  release: Release,
): Promise<DeploymentError> {
  const lines = await lastLines(release, 'runtime', row.instance ?? {})
  const seen = row.instance === null ? null : await instances.observe(row.instance)
  const exceeded = seen?.state === 'exited' ? seen.exceeded : null
  const message = exceeded === null ? seeOutput(lines) : limitMessage(exceeded, 'app')
  return new DeploymentError('run', exceeded?.code ?? crashLoop, withLastLines(message, lines))
}

async function giveUp(
  { store, instances, fail, secrets, logger }: ReviveDependencies,
  restarts: Restarts,
  row: DeploymentRow,
  error: unknown,
): Promise<void> {
  logger.error({ err: error, deployment: row.id }, 'the release cannot be kept running')
  const { code, message } = failureOf(error, secrets.valuesOf(row))
  const failure = {
    stage: 'run',
    // A limit that it exceeded is the reason; anything else is in the message.
    code: limitCodes.find((limit) => limit === code) ?? crashLoop,
    message: `The app ended again and again after it was started. ${message}`,
  } as const
  await fail(row, failure, row)
  restarts.forget(row.id)
  // A healthy instance may have taken the place of the ended one: then the release goes on.
  if (await store.jobs.runs(row)) return
  // A release that fails ends with all of its process types. An instance that is being started is no longer allowed to run, and ends by
  // itself when its start finds that.
  await instances.halt(releaseRef(row))
}
