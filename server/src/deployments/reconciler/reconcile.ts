import type { Gateway } from '../../gateway/client.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Release } from '../../runtimes/runtime.ts'
import type { InstanceControl } from '../job/instances.ts'
import type { Routes } from '../job/routes.ts'
import type { AppDirectory } from '../state/apps.ts'
import type { DeploymentLocks } from '../state/lock.ts'
import type { ReleaseOf } from '../state/secrets.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { DeploymentRow } from '../state/tables.ts'
import type { Liveness } from './liveness.ts'
import type { Revive } from './revive.ts'

/**
 * Compares one running release with what its runtime and the gateway see: adopts its instance, or starts it again when it
 * has ended.
 */
export type Reconcile = (row: DeploymentRow, stopping: AbortSignal) => Promise<void>

export interface ReconcileDependencies {
  readonly apps: Pick<AppDirectory, 'get'>
  readonly store: {
    readonly rows: Pick<DeploymentStore['rows'], 'find'>
    readonly jobs: Pick<DeploymentStore['jobs'], 'runs'>
  }
  readonly locks: Pick<DeploymentLocks, 'run' | 'isHeld'>
  readonly instances: Pick<InstanceControl, 'observe' | 'adopt' | 'isAdopted'>
  readonly liveness: Pick<Liveness, 'isAlive'>
  readonly gateway: Pick<Gateway, 'current'>
  readonly routes: Pick<Routes, 'route' | 'unroute'>
  /** False while another program holds the app's address. */
  readonly isOpen: (appId: string) => boolean
  readonly releaseOf: ReleaseOf
  readonly revive: Revive
}

export function createReconcile(dependencies: ReconcileDependencies): Reconcile {
  const { apps, store, locks, routes, isOpen, releaseOf, revive } = dependencies
  const release = async (row: DeploymentRow): Promise<Release> => releaseOf(row, await apps.get(row.app_id))

  return async (seen, stopping) => {
    // Nothing can be routed to an address that another program holds; opening the address is retried elsewhere.
    if (!isOpen(seen.app_id) || locks.isHeld(seen.id) || serves(dependencies, seen)) return
    await locks.run(
      seen.id,
      async ({ signal }) => {
        // Read again: a request may have changed it meanwhile.
        const row = await store.rows.find(seen.id)
        if (row?.status !== 'running' || signal.aborted) return
        if (await adopt(dependencies, row, () => release(row))) return
        await routes.unroute(row)
        // Another release may have taken over meanwhile: then this one finishes its requests, and is left alone.
        if (!(await store.jobs.runs(row))) return
        await revive(row, await release(row), signal)
      },
      stopping,
    )
  }
}

/**
 * True when the release has the app's address, and this leader looks after its instance, which is alive. The gateway may
 * send requests to it already: its routes outlive the leader that made them. Health checks at the start are not repeated.
 */
function serves(
  { gateway, instances, liveness }: ReconcileDependencies,
  { id, app_id, instance }: DeploymentRow,
): boolean {
  if (instance === null || gateway.current(app_id)?.deploymentId !== id) return false
  return instances.isAdopted(instance) && liveness.isAlive(id, instance)
}

/** Routes to the instance that the row names, if it still is that instance and it listens. */
async function adopt(
  dependencies: ReconcileDependencies,
  row: DeploymentRow,
  release: () => Promise<Release>,
): Promise<boolean> {
  const { instances, routes, store } = dependencies
  if (row.instance === null) return false
  if (serves(dependencies, row)) return true
  const seen = await instances.observe(row.instance)
  if (seen.state !== 'listening') return false
  await instances.adopt(await release(), row.instance)
  const upstream = { deploymentId: row.id, endpoints: seen.endpoints }
  return routes.route(row.app_id, upstream, () => store.jobs.runs(row))
}

/** Reconciles all running releases. A slow one does not delay the others. */
export function createReconcileAll(dependencies: {
  readonly store: { readonly rows: Pick<DeploymentStore['rows'], 'running'> }
  readonly reconcile: Reconcile
  readonly liveness: Pick<Liveness, 'keepOnly'>
  readonly logger: Logger
}): { run(stopping: AbortSignal): Promise<void>; settle(): Promise<void> } {
  const { store, reconcile, liveness, logger } = dependencies
  const underWay = new Set<Promise<void>>()
  return {
    async run(stopping) {
      const rows = await store.rows.running()
      liveness.keepOnly(new Set(rows.map(({ id }) => id)))
      for (const row of rows) {
        const one: Promise<void> = reconcile(row, stopping)
          .catch((error: unknown) => {
            logger.error({ err: error, deployment: row.id }, 'a release could not be reconciled')
          })
          .finally(() => underWay.delete(one))
        underWay.add(one)
      }
    },
    async settle() {
      await Promise.all(underWay)
    },
  }
}
