import type { BuildPlan } from '../../builds/build-plan.ts'
import type { Handle, Release } from '../../runtimes/runtime.ts'
import { nameUnset } from './advice.ts'
import type { AppDirectory } from './app-directory.ts'
import type { Unmeasured } from './disk-guard.ts'
import { DeploymentError } from './failure.ts'
import type { HealthCheck } from './health.ts'
import { type InstanceControl, releaseRef } from './instances.ts'
import type { MakeRelease } from './make.ts'
import { web, withLimits } from './process-types.ts'
import type { JobReads } from './reads.ts'
import type { StartReplicas } from './replicas.ts'
import { type Routes, stopGraceMs, upstreamOf } from './routes.ts'
import type { JobTransitions } from './rows.ts'
import type { ReleaseOf } from './secrets.ts'
import { createStepRecorder, type StepRecorder } from './steps.ts'
import type { SwitchStep } from './switch.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * Takes a deployment from its repository, or from its retained release, to instances that answer at the app's address.
 * Rejects with a `DeploymentError` that names the failed step and the reason, or with the signal's reason. The caller
 * removes what the failed deployment made.
 */
export type Deploy = (row: DeploymentRow, signal: AbortSignal) => Promise<void>

interface DeployDependencies {
  readonly apps: Pick<AppDirectory, 'get'>
  readonly store: { readonly jobs: Pick<JobTransitions, 'noteSteps'>; readonly rows: Pick<JobReads, 'find'> }
  readonly releaseOf: ReleaseOf
  readonly make: MakeRelease
  readonly start: StartStep
  readonly checkHealth: HealthCheck
  readonly startReplicas: StartReplicas
  readonly switchOver: SwitchStep
  /** Called after a deployment that made a release, in any outcome: deferred work may use the processor. */
  readonly afterMaking: (row: DeploymentRow) => void
  readonly settings: { readonly startTimeoutMs: number; readonly stableMs: number }
}

export function createDeploy(dependencies: DeployDependencies): Deploy {
  return async (row, signal) => {
    const steps = createStepRecorder(dependencies.store.jobs, row)
    try {
      await deploy(dependencies, row, steps, signal)
    } finally {
      if (!row.retained) dependencies.afterMaking(row)
      await steps.settle()
    }
  }
}

async function deploy(
  dependencies: DeployDependencies,
  row: DeploymentRow,
  steps: StepRecorder,
  signal: AbortSignal,
): Promise<void> {
  const { apps, store, releaseOf, make, start, checkHealth, startReplicas, switchOver, settings } = dependencies
  const app = await apps.get(row.app_id)
  const made = row.retained ? retainedPlan(row) : await make(row, await releaseOf(row, app), steps, signal)
  const { value: plan, withinLimit } = made
  // During the build, a password of a linked database may have been rotated, and another runtime may have taken the
  // release.
  const { variables, variable_origins, runtime } = (await store.rows.find(row.id)) ?? row
  const deployment = { ...row, variables, variable_origins, runtime, build_plan: plan }
  const release = await releaseOf(deployment, app)
  steps.begin('start')
  const started = await start(deployment, withLimits(release, plan.processes?.[web] ?? {}), plan, signal)
  steps.begin('check')
  // Measured while the app starts, because it would delay the start.
  const measuring = withinLimit()
  measuring.catch(() => undefined)
  const stableMs = row.retained ? Math.min(settings.stableMs, stableAgainMs) : settings.stableMs
  const { startTimeoutMs } = settings
  const { instance, endpoints } = await checkHealth(
    release,
    started,
    { startTimeoutMs, stableMs, path: plan.health },
    signal,
  ).catch((error: unknown) => {
    throw nameUnset(error, plan, release.variables)
  })
  const replicas = await startReplicas(deployment, release, plan, instance, signal)
  await measuring
  steps.begin('switch')
  const [first, ...more] = endpoints
  const upstream = upstreamOf(deployment, [first, ...more, ...replicas])
  await switchOver({ app, deployment, upstream, facts: { plan, instance } }, signal)
}

/** A release that was stable before needs a shorter check, so that a rollback is quick. */
const stableAgainMs = 300

function retainedPlan({ id, build_plan }: DeploymentRow): Unmeasured<BuildPlan> {
  if (build_plan !== null) return { value: build_plan, withinLimit: async () => undefined }
  throw new DeploymentError('start', 'server_error', `The release ${id} has lost its plan. Deploy again.`)
}

/**
 * Starts a release, or returns its running instance: a release that was just replaced is still finishing its requests,
 * and a rollback to it needs no new process. A release that is restarted first loses the address and ends.
 */
type StartStep = (row: DeploymentRow, release: Release, plan: BuildPlan, signal: AbortSignal) => Promise<Handle>

export function createStartStep({
  instances,
  routes,
}: {
  readonly instances: Pick<InstanceControl, 'observe' | 'halt' | 'start'>
  readonly routes: Pick<Routes, 'drain'>
}): StartStep {
  return async (row, release, plan, signal) => {
    const { instance } = row
    if (instance !== null && (await instances.observe(instance)).state === 'listening') return instance
    if (row.retained) {
      await routes.drain(row, signal)
      await instances.halt(releaseRef(row), { graceMs: stopGraceMs, signal })
    }
    signal.throwIfAborted()
    return instances.start(release, row.runtime, plan.start)
  }
}
