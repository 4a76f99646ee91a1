import type { Gateway } from '../../gateway/client.ts'
import type { Logger } from '../../platform/logger.ts'
import type { App } from '../app-directory.ts'
import { type InstanceControl, releaseRef } from '../job/instances.ts'
import { stopGraceMs } from '../job/routes.ts'
import type { DeploymentStore } from '../rows.ts'
import type { DeploymentRow } from '../tables.ts'
import type { ReconcileAll } from './reconcile.ts'
import type { Sweep } from './sweep.ts'
import type { Waker } from './waker.ts'

/** Keeps the releases running that should: at the server's start, and for as long as it lives. */
export interface Reconciler {
  /**
   * Opens every app's address (503 until its release is confirmed), removes what no deployment owns, and begins to adopt or
   * start every running release until `signal` aborts.
   */
  begin(signal: AbortSignal): Promise<void>
  /** True once the start of every app that was running when `begin` was called has been tried. */
  hasTriedAll(): boolean
  /** Reconciles every running release until `signal` aborts. */
  watch(signal: AbortSignal): Promise<void>
  /** Compares everything with the rows soon, because notifications of changes may have been missed. */
  lookAgain(): void
  /** Stops every app; the next start of the server brings them back. */
  stopAll(): Promise<void>
}

export interface ReconcilerDependencies {
  readonly listApps: () => Promise<readonly App[]>
  readonly listening: { keepOnly(listApps: () => Promise<readonly App[]>): Promise<void>; retry(): Promise<void> }
  /** Interrupts work for generations that are over. */
  readonly interruptOutdated: () => Promise<void>
  readonly sweep: Sweep
  readonly reconcileAll: ReconcileAll
  /** Woken when an instance ended or refused a connection, and when notifications may have been missed. */
  readonly waker: Waker
  readonly store: Pick<DeploymentStore, 'rows' | 'instances'>
  readonly gateway: Pick<Gateway, 'current' | 'route'>
  readonly instances: Pick<InstanceControl, 'stop' | 'halt'>
  readonly logger: Logger
}

const reconcileIntervalMs = 1_000
/** While all releases serve, they are compared this often in case that an event was missed. */
const steadyIntervalMs = 30_000
const openAgainMs = 5_000
const sweepIntervalMs = 60_000

export function createReconciler(dependencies: ReconcilerDependencies): Reconciler {
  const { listApps, listening, interruptOutdated, sweep, reconcileAll, waker, store, logger } = dependencies
  let mayHaveMissed = false

  const compareAll = async (): Promise<void> => {
    mayHaveMissed = false
    await interruptOutdated()
    await listening.keepOnly(listApps)
    await sweep()
  }

  return {
    async begin(stopping) {
      await compareAll()
      await reconcileAll.begin(stopping)
    },

    hasTriedAll: reconcileAll.hasTriedAll,

    lookAgain() {
      mayHaveMissed = true
      waker.wake()
    },

    async watch(stopping) {
      const now = performance.now()
      const reconciling = reconcilingChore(reconcileAll, stopping)
      const sweeping = { everyMs: sweepIntervalMs, dueAt: now + sweepIntervalMs, run: compareAll }
      const opening = { everyMs: openAgainMs, dueAt: now + openAgainMs, run: () => listening.retry() }
      const chores = [reconciling, opening, sweeping]
      while (!stopping.aborted) {
        if (mayHaveMissed) sweeping.dueAt = 0
        if (reconcileAll.mayHaveChanged()) reconciling.dueAt = 0
        for (const chore of chores) {
          if (performance.now() < chore.dueAt || stopping.aborted) continue
          chore.dueAt = performance.now() + chore.everyMs
          await chore.run().catch((error: unknown) => {
            logger.warn({ err: error }, 'the apps could not be reconciled')
          })
        }
        // A wake is followed at once, not at the end of the interval.
        if (await waker.pause(reconcileIntervalMs, stopping)) reconciling.dueAt = 0
      }
      await reconcileAll.settle()
    },

    async stopAll() {
      const rows = await store.rows.running()
      await Promise.all(
        rows.map((row) =>
          stop(dependencies, row).catch((error: unknown) => {
            logger.error({ err: error, deployment: row.id }, 'an app could not be stopped')
          }),
        ),
      )
    },
  }
}

/** Reconciles each second while something does not serve, and at the next look when its `dueAt` is set back. */
function reconcilingChore(reconcileAll: ReconcileAll, stopping: AbortSignal) {
  const chore = {
    everyMs: reconcileIntervalMs,
    dueAt: 0,
    async run() {
      const isSteady = await reconcileAll.run(stopping)
      if (isSteady) chore.dueAt = performance.now() + steadyIntervalMs
    },
  }
  return chore
}

async function stop({ gateway, instances, store }: ReconcilerDependencies, row: DeploymentRow): Promise<void> {
  // The address of an app that another program holds is not open.
  if (gateway.current(row.app_id) !== null) await gateway.route(row.app_id, null)
  if ((await store.instances.of(row.id)).length > 0) await instances.halt(releaseRef(row), { graceMs: stopGraceMs })
  else if (row.instance !== null) await instances.stop(releaseRef(row), row.instance, { graceMs: stopGraceMs })
}
