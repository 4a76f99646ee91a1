import type { Logger } from '../../platform/logger.ts'
import { limitCodes } from '../../runtimes/limits.ts'
import type { Release } from '../../runtimes/runtime.ts'
import type { Fail } from '../job/fail.ts'
import type { HealthCheck } from '../job/health.ts'
import type { InstanceControl } from '../job/instances.ts'
import type { LastLines } from '../job/log-lines.ts'
import { type Routes, stopGraceMs } from '../job/routes.ts'
import { DeploymentError, failureOf, limitMessage, withLastLines } from '../state/failure.ts'
import type { DeploymentSecrets } from '../state/secrets.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { DeploymentRow } from '../state/tables.ts'
import { createRestarts, type Restarts } from './restarts.ts'

/** Starts a running release again whose instance has ended, when that is due; makes it `failed` in a crash loop. */
export type Revive = (row: DeploymentRow, release: Release, signal: AbortSignal) => Promise<void>

export interface ReviveDependencies {
  readonly store: { readonly jobs: Pick<DeploymentStore['jobs'], 'runs' | 'setInstance'> }
  readonly instances: Pick<InstanceControl, 'stop' | 'start' | 'halt' | 'observe'>
  readonly routes: Pick<Routes, 'route'>
  readonly checkHealth: HealthCheck
  readonly lastLines: LastLines
  readonly fail: Fail
  readonly secrets: Pick<DeploymentSecrets, 'valuesOf'>
  readonly settings: { readonly startTimeoutMs: number; readonly stableMs: number }
  readonly logger: Logger
}

const crashLoop = 'crash_loop'

export function createRevive(dependencies: ReviveDependencies): Revive {
  const restarts = createRestarts()
  return async (row, release, signal) => {
    if (restarts.isLoop(row.id, performance.now())) {
      await giveUp(dependencies, restarts, row, await crashed(dependencies, row, release))
    } else if (restarts.isDue(row.id, performance.now())) {
      await startAgain(dependencies, restarts, row, release, signal)
    }
  }
}

async function startAgain(
  dependencies: ReviveDependencies,
  restarts: Restarts,
  row: DeploymentRow,
  release: Release,
  signal: AbortSignal,
): Promise<void> {
  const { store, instances, routes, checkHealth, settings, logger } = dependencies
  logger.info({ deployment: row.id }, 'starting the release again')
  restarts.note(row.id, performance.now())
  try {
    if (row.build_plan === null) throw new Error('a running deployment has no plan')
    if (row.instance !== null) await instances.stop(release, row.instance, { graceMs: stopGraceMs })
    signal.throwIfAborted()
    const instance = await instances.start(release, row.runtime, row.build_plan.start)
    // From here on a server that stops knows the instance from the row.
    if (!(await store.jobs.setInstance(row, instance))) return await instances.halt(release)
    const endpoints = await checkHealth(release, instance, { ...settings, path: row.build_plan.health }, signal)
    await routes.route(row.app_id, { deploymentId: row.id, endpoints }, () => store.jobs.runs(row))
  } catch (error) {
    if (signal.aborted) return
    logger.warn({ err: error, deployment: row.id }, 'the release could not be started again')
    await instances.halt(release)
    restarts.noteFailure(row.id, performance.now())
    if (restarts.isLoop(row.id, performance.now())) await giveUp(dependencies, restarts, row, error)
  }
}

async function crashed(
  { instances, lastLines }: ReviveDependencies,
  row: DeploymentRow,
  release: Release,
): Promise<DeploymentError> {
  const lines = await lastLines(release, 'runtime')
  const seen = row.instance === null ? null : await instances.observe(row.instance)
  const exceeded = seen?.state === 'exited' ? seen.exceeded : null
  const message = exceeded === null ? 'Put right what its output says.' : limitMessage(exceeded, 'app')
  return new DeploymentError('run', exceeded?.code ?? crashLoop, withLastLines(message, lines))
}

async function giveUp(
  { fail, secrets, logger }: ReviveDependencies,
  restarts: Restarts,
  row: DeploymentRow,
  error: unknown,
): Promise<void> {
  logger.error({ err: error, deployment: row.id }, 'the release cannot be kept running')
  const { code, message } = failureOf(error, secrets.valuesOf(row))
  await fail(row, {
    stage: 'run',
    // A limit that it exceeded is the reason; anything else is in the message.
    code: limitCodes.find((limit) => limit === code) ?? crashLoop,
    message: `The app ended again and again after it was started. ${message}`,
  })
  restarts.forget(row.id)
}
