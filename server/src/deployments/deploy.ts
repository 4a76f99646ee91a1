import { DeploymentError } from './failure.ts'
import type { DeployParts } from './parts.ts'
import { homeOf, sourceOf, temporaryFolderOf } from './runner/environment.ts'
import type { Plan, Release } from './runner/runner.ts'
import { buildRelease } from './steps/build.ts'
import { fetchSource } from './steps/fetch.ts'
import { type HealthOptions, untilHealthy } from './steps/health.ts'
import { planFor } from './steps/plan.ts'
import { startRelease } from './steps/start.ts'
import { switchOver } from './steps/switch-over.ts'
import { within } from './steps/within.ts'
import type { DeploymentRow } from './store/store.ts'

/**
 * Takes a deployment from its repository, or from its release that was kept, to processes that answer at the app's
 * address. Rejects with a `DeploymentError` that says which step failed and why, or with the signal's reason.
 * What was made on the way is the caller's to remove.
 */
export async function deploy(parts: DeployParts, deployment: DeploymentRow, signal: AbortSignal): Promise<void> {
  const app = await parts.apps.get(deployment.app_id)
  const release = await parts.releases.of(deployment, app.number)
  const plan = deployment.retained ? keptPlan(deployment) : await makeRelease(parts, deployment, release, signal)
  const instance = await startRelease(parts, deployment, release, plan, signal)
  const { host } = await untilHealthy(parts.runner, release, instance, healthOf(parts, deployment, plan), signal)
  const upstream = { deploymentId: release.id, host, port: instance.port }
  await switchOver(parts, { app, deployment, upstream, facts: { plan, instance } }, signal)
}

async function makeRelease(
  parts: DeployParts,
  deployment: DeploymentRow,
  release: Release,
  signal: AbortSignal,
): Promise<Plan> {
  await parts.releases.prepare(release)
  const { mostSourceBytes, mostReleaseBytes } = parts.settings
  const source = await within('fetch', parts.settings.fetchTimeoutMs, signal, (limit) =>
    parts.disk.hold({ stage: 'fetch', folder: release.directory, mostBytes: mostSourceBytes }, limit, (held) =>
      fetchSource(parts, requestOf(parts, deployment, release), held),
    ),
  )
  await parts.store.fetched(deployment, source)
  const plan = await planFor(sourceOf(release), parts.planOptions)
  await parts.releases.handOver(release, signal)
  await parts.buildSlots.use(deployment.account_id, signal, () =>
    within('build', parts.settings.buildTimeoutMs, signal, (limit) =>
      parts.disk.hold(
        {
          stage: 'build',
          folder: release.directory,
          mostBytes: mostReleaseBytes,
          growing: [homeOf(release), temporaryFolderOf(release)],
        },
        limit,
        (held) => buildRelease(parts.runner, release, plan, held),
      ),
    ),
  )
  return plan
}

function requestOf(parts: DeployParts, deployment: DeploymentRow, release: Release) {
  return {
    projectId: deployment.project_id,
    gitUrl: deployment.git_url,
    branch: deployment.branch,
    commit: deployment.commit,
    token: parts.releases.tokenOf(deployment),
    directory: sourceOf(release),
  }
}

/** A release that was found stable before needs less time to show it again: who rolls back is in a hurry. */
function healthOf({ settings }: DeployParts, { retained }: DeploymentRow, { health: path }: Plan): HealthOptions {
  const stableMs = retained ? Math.min(settings.stableMs, stableAgainMs) : settings.stableMs
  return { ...settings, stableMs, path }
}

const stableAgainMs = 300

function keptPlan({ id, plan }: DeploymentRow): Plan {
  if (plan === null)
    throw new DeploymentError('start', 'server_error', `The release ${id} has lost its plan. Deploy again.`)
  return plan
}
