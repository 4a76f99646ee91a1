import type { BuildPlan } from '../../builds/build-plan.ts'
import type { AppDirectory } from '../state/apps.ts'
import { DeploymentError } from '../state/failure.ts'
import type { ReleaseOf } from '../state/secrets.ts'
import type { DeploymentRow } from '../state/tables.ts'
import type { HealthCheck } from './health.ts'
import type { MakeRelease } from './make-release.ts'
import type { StartStep } from './start.ts'
import type { SwitchStep } from './switch-over.ts'

/**
 * Takes a deployment from its repository, or from its retained release, to instances that answer at the app's address.
 * Rejects with a `DeploymentError` that says which step failed and why, or with the signal's reason. The caller removes
 * what was made on the way.
 */
export type Deploy = (row: DeploymentRow, signal: AbortSignal) => Promise<void>

export function createDeploy(dependencies: {
  readonly apps: Pick<AppDirectory, 'get'>
  readonly releaseOf: ReleaseOf
  readonly makeRelease: MakeRelease
  readonly start: StartStep
  readonly checkHealth: HealthCheck
  readonly switchOver: SwitchStep
  readonly settings: { readonly startTimeoutMs: number; readonly stableMs: number }
}): Deploy {
  const { apps, releaseOf, makeRelease, start, checkHealth, switchOver, settings } = dependencies
  return async (row, signal) => {
    const app = await apps.get(row.app_id)
    const release = await releaseOf(row, app)
    const plan = row.retained ? retainedPlan(row) : await makeRelease(row, release, signal)
    const instance = await start(row, release, plan, signal)
    const stableMs = row.retained ? Math.min(settings.stableMs, stableAgainMs) : settings.stableMs
    const { startTimeoutMs } = settings
    const endpoints = await checkHealth(release, instance, { startTimeoutMs, stableMs, path: plan.health }, signal)
    const upstream = { deploymentId: row.id, endpoints }
    await switchOver({ app, deployment: row, upstream, facts: { plan, instance } }, signal)
  }
}

/** A release that was stable before needs a shorter check, so that a rollback is quick. */
const stableAgainMs = 300

function retainedPlan({ id, build_plan }: DeploymentRow): BuildPlan {
  if (build_plan !== null) return build_plan
  throw new DeploymentError('start', 'server_error', `The release ${id} has lost its plan. Deploy again.`)
}
