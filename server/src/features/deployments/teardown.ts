import type { Upstream } from '../../gateway/client.ts'
import type { LogStore } from '../../logs/log-store.ts'
import type { Database } from '../../platform/database.ts'
import type { Sources } from '../../sources/sources.ts'
import type { AppDirectory } from './app-directory.ts'
import { type InstanceControl, releaseRef } from './instances.ts'
import type { DeploymentLocks } from './lock.ts'
import { type Routes, stopGraceMs } from './routes.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * Reduces a release to what its deployment's state allows: a building or running release keeps everything; a stopped
 * release keeps its files, if they are retained, and loses its instance; a deleted release loses everything. Current
 * requests may finish. Safe to call for any release at any time, and again.
 *
 * @param replaced the upstream of a release that has already lost the address to another release
 */
export type Teardown = (
  deployment: Pick<DeploymentRow, 'id' | 'app_id'>,
  options?: { readonly replaced?: Upstream | null },
) => Promise<void>

interface TeardownDependencies {
  readonly store: {
    readonly rows: Pick<DeploymentStore['rows'], 'find'>
    readonly jobs: Pick<DeploymentStore['jobs'], 'forgetInstance'>
    readonly instances: Pick<DeploymentStore['instances'], 'of' | 'clear'>
  }
  readonly locks: Pick<DeploymentLocks, 'run'>
  readonly instances: Pick<InstanceControl, 'halt' | 'remove' | 'stop'>
  readonly routes: Pick<Routes, 'drain'>
}

export function createTeardown(dependencies: TeardownDependencies): Teardown {
  const { store, locks, instances, routes } = dependencies
  return async (deployment, options = {}) => {
    let upstream = options.replaced ?? null
    let again = true
    while (again) {
      again = await locks.run(deployment.id, async ({ signal }) => {
        const row = await store.rows.find(deployment.id)
        if (row?.status === 'building' || row?.status === 'running') return false
        // Also without a row: the owner may have deleted the release right after its stop.
        upstream = await routes.drain(deployment, signal, upstream)
        if (row !== undefined) await endInstance(dependencies, row, signal)
        // Interrupted by a later request, which may need the release unchanged: the row is read again.
        if (signal.aborted) return true
        if (row?.retained === true) await instances.halt(releaseRef(row))
        else await instances.remove(releaseRef(row ?? { ...deployment, runtime: null }))
        if (row !== undefined) await store.instances.clear(row.id)
        return false
      })
    }
  }
}

async function endInstance(
  { store, instances }: TeardownDependencies,
  row: DeploymentRow,
  signal: AbortSignal,
): Promise<void> {
  // Recorded before the instance ends: from then on no job routes to it.
  if (row.instance === null || signal.aborted || !(await store.jobs.forgetInstance(row))) return
  const options = { graceMs: stopGraceMs, signal }
  if ((await store.instances.of(row.id)).length > 0) await instances.halt(releaseRef(row), options)
  else await instances.stop(releaseRef(row), row.instance, options)
}

export type RemoveDeployment = (deployment: Pick<DeploymentRow, 'id' | 'app_id'>) => Promise<void>

interface RemoveDependencies {
  readonly teardown: Teardown
  readonly logs: Pick<LogStore, 'remove'>
}

export function createRemoveDeployment(dependencies: RemoveDependencies): RemoveDeployment {
  const { teardown, logs } = dependencies
  return async (row) => {
    await teardown(row)
    await logs.remove({ appId: row.app_id, deploymentId: row.id })
  }
}

/**
 * Stops and removes all deployments and apps of a project: instances, files, logs, addresses, caches, rows. It may be
 * interrupted at any moment, and is called again until it resolves. The project must accept no new deployments.
 */
export type RemoveProject = (projectId: string) => Promise<void>

export function createRemoveProject(
  dependencies: RemoveDependencies & {
    readonly database: Database
    readonly store: Pick<DeploymentStore, 'requests' | 'ofProjects'>
    readonly apps: Pick<AppDirectory, 'ofProject'>
    readonly locks: Pick<DeploymentLocks, 'interrupt'>
    readonly closeAddress: (appId: string) => Promise<void>
    readonly removeApp: (appId: string) => Promise<void>
    readonly sources: readonly Pick<Sources, 'removeProject'>[]
  },
): RemoveProject {
  const { database, store, locks, closeAddress, removeApp, sources } = dependencies
  const removeDeployment = createRemoveDeployment(dependencies)
  return async (projectId) => {
    await database.transaction().execute((transaction) => store.requests.endProject(transaction, projectId))
    const rows = await store.ofProjects.ofProject(projectId)
    for (const row of rows) locks.interrupt(row)
    const apps = await dependencies.apps.ofProject(projectId)
    for (const app of apps) await closeAddress(app.id)
    // The rows are deleted last: as long as a row exists, the removal is not complete.
    for (const row of rows) await removeDeployment(row)
    for (const app of apps) await removeApp(app.id)
    for (const each of sources) await each.removeProject(projectId)
    await database.transaction().execute((transaction) => store.requests.deleteProject(transaction, projectId))
  }
}
