import type { LogStore } from '../../logs/log-store.ts'
import type { DeploymentStore } from '../rows.ts'
import type { Teardown } from './teardown.ts'

/** The number of releases of an app that can be rolled back to. */
const releasesKept = 5
/** The number of deployments of an app whose logs are kept. */
const logsKept = 50

/** Removes the oldest releases and logs of an app beyond those that are kept. */
export type Prune = (appId: string) => Promise<void>

export function createPrune({
  store,
  logs,
  teardown,
}: {
  readonly store: Pick<DeploymentStore, 'rows' | 'jobs'>
  readonly logs: Pick<LogStore, 'list' | 'remove'>
  readonly teardown: Teardown
}): Prune {
  return async (appId) => {
    for (const row of await store.jobs.prune(appId, releasesKept)) await teardown(row)
    const kept = new Set(await store.rows.newest(appId, logsKept))
    const found = (await logs.list()).find((app) => app.appId === appId)
    for (const deploymentId of found?.deploymentIds ?? []) {
      if (kept.has(deploymentId)) continue
      // The release of an old deployment may have been rolled back to, and still writes its log.
      const row = await store.rows.find(deploymentId)
      if (row?.retained !== true && row?.status !== 'building' && row?.status !== 'running') {
        await logs.remove({ appId, deploymentId })
      }
    }
  }
}
