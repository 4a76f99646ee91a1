import type { LogStore } from '../../logs/log-store.ts'
import type { Database } from '../../platform/database.ts'
import type { Sources } from '../../sources/sources.ts'
import type { AppDirectory } from '../app-directory.ts'
import type { Teardown } from '../job/teardown.ts'
import type { DeploymentLocks } from '../lock.ts'
import type { DeploymentStore } from '../rows.ts'
import type { DeploymentRow } from '../tables.ts'

/** Removes everything that a deleted deployment left: instances, files, logs. */
export type RemoveDeployment = (deployment: Pick<DeploymentRow, 'id' | 'app_id'>) => Promise<void>

export interface RemoveDependencies {
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
 * Stops and removes all deployments and apps of a project: instances, files, logs, addresses, caches, rows. For a job: it
 * may break off at any moment and is called again until it resolves; calling it once more does nothing. No new deployment
 * of the project may be accepted any more.
 */
export type RemoveProject = (projectId: string) => Promise<void>

export function createRemoveProject(
  dependencies: RemoveDependencies & {
    readonly database: Database
    readonly store: Pick<DeploymentStore, 'requests' | 'ofProjects'>
    readonly apps: Pick<AppDirectory, 'ofProject'>
    readonly locks: Pick<DeploymentLocks, 'interrupt'>
    readonly closeAddress: (appId: string) => Promise<void>
    /** Removes everything that runtimes and logs keep of an app. */
    readonly removeApp: (appId: string) => Promise<void>
    /** Remove the caches of repositories, and uploaded sources. */
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
    // The rows are deleted last: as long as one is there, this is not done.
    for (const row of rows) await removeDeployment(row)
    for (const app of apps) await removeApp(app.id)
    for (const each of sources) await each.removeProject(projectId)
    await database.transaction().execute((transaction) => store.requests.deleteProject(transaction, projectId))
  }
}
