import type { LogStore } from '../../logs/log-store.ts'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Handle, Inventory, Runtime } from '../../runtimes/runtime.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import type { AppDirectory } from './app-directory.ts'
import { releaseRef } from './instances.ts'
import type { DeploymentLocks } from './lock.ts'
import { enqueueForgotten } from './queue.ts'
import type { DeploymentStore } from './rows.ts'
import type { DeploymentRow } from './tables.ts'
import type { Teardown } from './teardown.ts'

/**
 * Compares runtimes and logs with the database, and removes leftovers: releases that are neither active nor retained,
 * instances of stopped releases, instances without a row, and logs and apps that are gone. Adds a job for every
 * deployment that is building without one. Normally other code does all this; the sweep completes work that a crash, a
 * full disk or an unreachable database interrupted, and work whose notification the leader missed.
 */
export type Sweep = () => Promise<void>

interface SweepDependencies {
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'rows' | 'ofProjects' | 'instances'>
  readonly apps: Pick<AppDirectory, 'list'>
  readonly runtimes: Pick<Runtimes, 'all'>
  readonly logs: Pick<LogStore, 'list' | 'remove'>
  readonly removeApp: (appId: string) => Promise<void>
  readonly clearVolumes: () => Promise<void>
  readonly locks: Pick<DeploymentLocks, 'isHeld' | 'run'>
  readonly teardown: Teardown
  readonly logger: Logger
}

export function createSweep(dependencies: SweepDependencies): Sweep {
  const { database, store, apps, runtimes, logs, removeApp, logger } = dependencies
  return async () => {
    const inventories = await Promise.all(runtimes.all.map((runtime) => inventoryOf(runtime, logger)))
    const running = new Set(inventories.flatMap((inventory) => [...inventory.running]))
    const instances = new Map(inventories.flatMap((inventory) => [...inventory.instances]))
    const found = await logs.list()
    const logged = found.map(({ appId }) => ({ id: appId, releases: [] }))
    // Queried after the listing: a release that began since then is in the rows, or was not listed.
    const existing = new Set((await apps.list()).map(({ id }) => id))
    const clear = async (app: { readonly id: string; readonly releases: readonly string[] }): Promise<void> => {
      for (const id of app.releases) {
        const found = { isRunning: running.has(id), instances: instances.get(id) ?? 0 }
        await clearRelease(dependencies, { id, app_id: app.id }, found)
      }
      if (!existing.has(app.id)) await removeApp(app.id)
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
      found.filter(({ appId }) => existing.has(appId)),
    )
    await dependencies.clearVolumes().catch((error: unknown) => {
      logger.error({ err: error }, 'the files of deleted volumes could not be removed')
    })
    await enqueueForgotten(database, store.rows, store.ofProjects)
  }
}

/**
 * Returns the contents of a runtime; empty when the runtime is unreachable, such as a Docker engine that is down. The
 * next sweep asks again. Neither leftovers of other runtimes nor the start of the leader wait for it.
 */
async function inventoryOf({ name, releases }: Runtime, logger: Logger): Promise<Inventory> {
  try {
    return await releases.list()
  } catch (error) {
    logger.warn({ err: error, runtime: name }, 'the releases of a runtime could not be listed')
    return { apps: [], running: new Set(), instances: new Map() }
  }
}

/** Removes the logs of deployments that are gone. The logs were listed before the rows are read. */
async function removeLogs(
  { store, logs }: SweepDependencies,
  found: readonly { readonly appId: string; readonly deploymentIds: readonly string[] }[],
): Promise<void> {
  const existing = await store.rows.existing(found.flatMap(({ deploymentIds }) => deploymentIds))
  for (const { appId, deploymentIds } of found) {
    for (const deploymentId of deploymentIds)
      if (!existing.has(deploymentId)) await logs.remove({ appId, deploymentId })
  }
}

async function clearRelease(
  dependencies: SweepDependencies,
  release: { readonly id: string; readonly app_id: string },
  found: { readonly isRunning: boolean; readonly instances: number },
): Promise<void> {
  const { store, locks, teardown } = dependencies
  if (locks.isHeld(release.id)) return
  const row = await store.rows.find(release.id)
  const isRetained = row?.retained === true && !found.isRunning
  const isActive = row?.status === 'building' || row?.status === 'running'
  if (!isRetained && !isActive) await teardown(release)
  if (row?.status !== 'running') return
  if (found.instances > (await recordedInstances(dependencies, row)).length) await endUnknown(dependencies, row.id)
}

async function recordedInstances(
  { store }: Pick<SweepDependencies, 'store'>,
  { id, instance }: DeploymentRow,
): Promise<readonly Handle[]> {
  const further = (await store.instances.of(id)).map(({ handle }) => handle)
  return instance === null ? further : [instance, ...further]
}

/** Ends the instances of a running release that have no row: a server started them right before it was killed. */
async function endUnknown(dependencies: SweepDependencies, id: string): Promise<void> {
  const { store, locks, runtimes, logger } = dependencies
  await locks.run(id, async () => {
    const row = await store.rows.find(id)
    const holder = runtimes.all.find(({ name }) => name === row?.runtime)
    if (row?.status !== 'running' || holder === undefined) return
    logger.warn({ deployment: id }, 'ending instances without a row')
    await holder.releases.endOthers(releaseRef(row), await recordedInstances(dependencies, row))
  })
}
