import type { LogStore } from '../../logs/log-store.ts'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import type { Teardown } from '../job/teardown.ts'
import type { AppDirectory } from '../state/apps.ts'
import type { DeploymentLocks } from '../state/lock.ts'
import { enqueueForgotten } from '../state/queue.ts'
import type { DeploymentStore } from '../state/store.ts'

/**
 * Compares what runtimes and logs hold with the database, and removes leftovers: releases that are neither active nor
 * retained, instances of releases at rest, logs and apps that are gone. Gives every deployment that is building its job.
 * Normally each of these is done where it belongs; the sweep completes those that were cut short by a crash, a full disk or
 * an unreachable database, and those of which the leader did not hear.
 */
export type Sweep = () => Promise<void>

export interface SweepDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'rows' | 'ofProjects'>
  readonly apps: Pick<AppDirectory, 'list'>
  readonly runtimes: Pick<Runtimes, 'all'>
  readonly logs: Pick<LogStore, 'list' | 'remove'>
  readonly removeApp: (appId: string) => Promise<void>
  readonly locks: Pick<DeploymentLocks, 'isHeld'>
  readonly teardown: Teardown
  readonly logger: Logger
}

export function createSweep(dependencies: SweepDependencies): Sweep {
  const { database, store, apps, runtimes, logs, removeApp, logger } = dependencies
  return async () => {
    const inventories = await Promise.all(runtimes.all.map(({ releases }) => releases.list()))
    const running = new Set(inventories.flatMap((inventory) => [...inventory.running]))
    const found = await logs.list()
    const logged = found.map(({ appId }) => ({ id: appId, releases: [] }))
    // Queried after the listing: a release that began since then is in the rows, or was not listed.
    const known = new Set((await apps.list()).map(({ id }) => id))
    const clear = async (app: { readonly id: string; readonly releases: readonly string[] }): Promise<void> => {
      for (const id of app.releases) await clearRelease(dependencies, { id, app_id: app.id }, running.has(id))
      if (!known.has(app.id)) await removeApp(app.id)
    }
    // In parallel: an instance may take long to end.
    await Promise.all(
      [...inventories.flatMap((inventory) => inventory.apps), ...logged].map((app) =>
        clear(app).catch((error: unknown) => {
          logger.error({ err: error, app: app.id }, 'leftovers of an app could not be removed')
        }),
      ),
    )
    await removeLogs(
      dependencies,
      found.filter(({ appId }) => known.has(appId)),
    )
    await enqueueForgotten(database, store.rows, store.ofProjects)
  }
}

/** Removes the logs of deployments that are gone. The logs were listed before the rows are read. */
async function removeLogs(
  { store, logs }: SweepDependencies,
  found: readonly { readonly appId: string; readonly deploymentIds: readonly string[] }[],
): Promise<void> {
  const known = await store.rows.known(found.flatMap(({ deploymentIds }) => deploymentIds))
  for (const { appId, deploymentIds } of found) {
    for (const deploymentId of deploymentIds) if (!known.has(deploymentId)) await logs.remove({ appId, deploymentId })
  }
}

async function clearRelease(
  { store, locks, teardown }: SweepDependencies,
  release: { readonly id: string; readonly app_id: string },
  isRunning: boolean,
): Promise<void> {
  if (locks.isHeld(release.id)) return
  const row = await store.rows.find(release.id)
  const isRetained = row?.retained === true && !isRunning
  const isActive = row?.status === 'building' || row?.status === 'running'
  if (!isRetained && !isActive) await teardown(release)
}
