import { planFor } from '../../builds/plan-directory.ts'
import { cacheOf, homeOf, sourceOf, temporaryFolderOf } from '../../runtimes/process/environment.ts'
import type { Plan, Release } from '../../runtimes/runtime.ts'
import { type FetchedSource, fetchSource } from '../../sources/fetch.ts'
import { DeploymentError } from '../state/failure.ts'
import type { DeploymentRow } from '../state/store.ts'
import { buildRelease } from './build.ts'
import type { Held } from './disk.ts'
import { type HealthOptions, untilHealthy } from './health.ts'
import type { DeployParts } from './parts.ts'
import { startRelease } from './start.ts'
import { switchOver } from './switch-over.ts'
import { within } from './within.ts'

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
  try {
    await parts.releases.prepare(release)
    await parts.store.fetched(deployment, await fetch(parts, deployment, release, signal))
    const plan = await planFor(sourceOf(release), parts.planOptions)
    await parts.releases.handOver(release, signal)
    await parts.buildSlots.use(deployment.account_id, signal, () => build(parts, release, plan, signal))
    return plan
  } finally {
    parts.background.add(parts.caches.trim(), { deployment: release.id, what: 'clearing caches' })
  }
}

function fetch(
  parts: DeployParts,
  deployment: DeploymentRow,
  release: Release,
  signal: AbortSignal,
): Promise<FetchedSource> {
  const { fetchTimeoutMs, mostSourceBytes: mostBytes } = parts.settings
  const files: Held = { stage: 'fetch', mostBytes, folders: [release.directory], growing: [] }
  const packs: Held = { ...files, folders: [], growing: [parts.gitCache.folderOf(deployment.project_id)] }
  return within('fetch', fetchTimeoutMs, signal, (limit) =>
    parts.disk.hold(files, limit, (held) =>
      parts.disk.hold(packs, held, (held) => fetchSource(parts, requestOf(parts, deployment, release), held)),
    ),
  )
}

function build(parts: DeployParts, release: Release, plan: Plan, signal: AbortSignal): Promise<void> {
  const { buildTimeoutMs, mostReleaseBytes: mostBytes } = parts.settings
  const cache = cacheOf(release)
  const growing = [homeOf(release), temporaryFolderOf(release), cache]
  return parts.caches.use(cache, signal, () =>
    within('build', buildTimeoutMs, signal, (limit) =>
      parts.disk.hold({ stage: 'build', mostBytes, folders: [release.directory], growing }, limit, (held) =>
        buildRelease(parts.runner, release, plan, held),
      ),
    ),
  )
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
