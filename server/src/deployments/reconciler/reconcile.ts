import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Gateway } from '../../gateway/client.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Release } from '../../runtimes/runtime.ts'
import type { InstanceControl } from '../job/instances.ts'
import type { Routes } from '../job/routes.ts'
import { upstreamOf } from '../job/upstream.ts'
import type { DeploymentLocks, SharedLock } from '../state/lock.ts'
import type { DeploymentStore } from '../state/store.ts'
import type { DeploymentRow } from '../state/tables.ts'
import type { Others } from './others.ts'
import type { Revive } from './revive.ts'

/**
 * Compares one running release with what its runtime and the gateway see: adopts its instance, or starts it again when it
 * has ended. Returns `null` for one that serves already, and that nothing works on.
 */
export type Reconcile = (row: DeploymentRow, stopping: AbortSignal) => Promise<void> | null

/** The time between two looks at an instance that does not listen. */
const pollMs = 50

/** Connections that instances have refused. */
interface Refusals {
  /** The deployments whose instances have refused one since they were last seen to listen. */
  readonly ids: Set<string>
  /** The time that an instance which lives has to listen again before it is started again. */
  readonly recoverMs: number
}

export interface ReconcileDependencies {
  readonly refusals: Refusals
  readonly store: {
    readonly rows: Pick<DeploymentStore['rows'], 'find'>
    readonly jobs: Pick<DeploymentStore['jobs'], 'runs'>
  }
  readonly locks: Pick<DeploymentLocks, 'share' | 'isTaken' | 'isHeld'>
  readonly instances: Pick<InstanceControl, 'observe' | 'adopt' | 'isAdopted'>
  readonly gateway: Pick<Gateway, 'current' | 'probe'>
  readonly routes: Pick<Routes, 'route' | 'unroute'> & {
    /** False while another program holds the app's address. */
    isOpen(appId: string): boolean
  }
  /** Returns the release of a deployment, with its app and its variables. */
  readonly releaseOf: (row: DeploymentRow) => Promise<Release>
  readonly revive: Revive
  readonly others: Omit<Others, 'refresh' | 'isExpected' | 'settle'>
}

export function createReconcile(dependencies: ReconcileDependencies): Reconcile {
  const { store, locks, routes } = dependencies
  const looking = new Set<string>()
  const reviving = new Set<string>()

  const reconcile = async (seen: DeploymentRow, stopping: AbortSignal): Promise<void> => {
    // Nothing can be routed to an address that another program holds; opening the address is retried elsewhere.
    if (!routes.isOpen(seen.app_id) || locks.isTaken(seen.id) || looking.has(seen.id)) return
    looking.add(seen.id)
    const starts = await locks
      .share(
        seen.id,
        async (held) => {
          // Read again: a request may have changed it meanwhile.
          const row = await store.rows.find(seen.id)
          if (row?.status !== 'running' || held.signal.aborted) return []
          return reconcileRow(dependencies, reviving, row, held)
        },
        stopping,
      )
      .finally(() => looking.delete(seen.id))
    await Promise.all(starts.map((start) => start()))
  }
  return (seen, stopping) => (!locks.isHeld(seen.id) && serves(dependencies, seen) ? null : reconcile(seen, stopping))
}

/**
 * Keeps the first instance of a release serving, and then the others. Returns functions that wait for the instances that it
 * starts, which share the lock: one that hangs keeps no other from being started.
 */
async function reconcileRow(
  dependencies: ReconcileDependencies,
  reviving: Set<string>,
  row: DeploymentRow,
  held: SharedLock,
): Promise<(() => Promise<void>)[]> {
  const { store, routes, releaseOf, revive, others } = dependencies
  const { signal, meanwhile } = held
  const release = await releaseOf(row)
  const complete = (serving: DeploymentRow) => {
    const completing = meanwhile(others.complete(serving, release, held, () => reviving.has(row.id)))
    return () => completing
  }
  const isKnown = () => hasInstance(dependencies, row)
  if (reviving.has(row.id)) return [complete(row)]
  if (await adopt(dependencies, row, signal)) return [complete(row)]
  // Another instance has taken its place: the next round looks at the release again.
  if (!(await isKnown())) return []
  const hasReplica = (await others.endpoints(row, release)).length > 0
  if (!hasReplica) await routes.unroute(row, isKnown)
  // A supervisor starts its worker again by itself.
  if (dependencies.refusals.ids.delete(row.id) && (await listensAgain(dependencies, row, signal))) {
    if (await adopt(dependencies, row, signal)) return [complete(row)]
  }
  // Another release may have taken over meanwhile: then this one finishes its requests, and is left alone.
  if (!(await store.jobs.runs(row))) return []
  const promoted = hasReplica ? await others.promote(row, release) : null
  if (promoted !== null) {
    await adopt(dependencies, promoted, signal)
    return [complete(promoted)]
  }
  if (hasReplica) await routes.unroute(row, isKnown)
  if (!(await isKnown())) return []
  reviving.add(row.id)
  const replicas = () => others.endpoints(row, release)
  const started = meanwhile(revive(row, release, replicas, signal).finally(() => reviving.delete(row.id)))
  return [() => started, complete(row)]
}

type ServesDependencies = Pick<ReconcileDependencies, 'gateway' | 'instances' | 'refusals' | 'others'>

/**
 * True when the release has the app's address, and this leader looks after its instance, which is alive. The gateway may
 * send requests to it already: its routes outlive the leader that made them. Health checks at the start are not repeated.
 * After a refused connection, the owner of the listening socket has to be looked up again.
 */
function serves({ gateway, instances, refusals, others }: ServesDependencies, row: DeploymentRow): boolean {
  const { id, app_id, instance } = row
  if (instance === null || refusals.ids.has(id)) return false
  return gateway.current(app_id)?.deploymentId === id && instances.isAdopted(instance) && others.isSteady(row)
}

/** Routes to the instance that the row names, if it still is that instance and it can answer. */
async function adopt(dependencies: ReconcileDependencies, row: DeploymentRow, signal: AbortSignal): Promise<boolean> {
  const { instances, gateway, routes, store, releaseOf, others } = dependencies
  if (row.instance === null) return false
  if (serves(dependencies, row)) return true
  const seen = await instances.observe(row.instance)
  if (seen.state !== 'listening') return false
  const hasRefused = dependencies.refusals.ids.delete(row.id)
  const isKnown = instances.isAdopted(row.instance) && !hasRefused
  const release = await releaseOf(row)
  await instances.adopt(release, row.instance)
  const [endpoint] = seen.endpoints
  if ('folder' in endpoint && (await gateway.probe(endpoint, '/')) >= 500) return false
  const more = await others.endpoints(row, release)
  const upstream = upstreamOf(row, [...seen.endpoints, ...more])
  // While others start.
  if (isKnown && isDeepStrictEqual(gateway.current(row.app_id), upstream)) return true
  let haveChanged = false
  // An instance that was replaced since then is about to end, and must not get requests again.
  const mayRoute = async () => {
    if (!(await store.jobs.runs(row)) || !(await hasInstance(dependencies, row))) return false
    haveChanged = !isDeepStrictEqual(await others.endpoints(row, release), more)
    return !haveChanged
  }
  const isRouted = await routes.route(row.app_id, upstream, mayRoute)
  return haveChanged ? adopt(dependencies, row, signal) : isRouted
}

/** True while the database still names the same first instance as this row. */
async function hasInstance(
  { store }: Pick<ReconcileDependencies, 'store'>,
  { id, instance }: DeploymentRow,
): Promise<boolean> {
  return isDeepStrictEqual((await store.rows.find(id))?.instance, instance)
}

/** Waits until the instance listens; false when it has ended or needs too long. */
async function listensAgain(
  { instances, refusals }: ReconcileDependencies,
  { instance }: DeploymentRow,
  signal: AbortSignal,
): Promise<boolean> {
  if (instance === null) return false
  const end = performance.now() + refusals.recoverMs
  while (!signal.aborted) {
    const { state } = await instances.observe(instance)
    if (state === 'listening' || state === 'exited') return state === 'listening'
    if (performance.now() > end) return false
    await sleep(pollMs)
  }
  return false
}

/** All running releases of the server. */
export interface ReconcileAll {
  /**
   * Reconciles them in the background, so that a slow one does not delay the others. Resolves to true when all serve: then only
   * an event can change that, or the end of what works on a deployment.
   */
  run(stopping: AbortSignal): Promise<boolean>
  /** True when work on a deployment has ended since the last run began. */
  mayHaveChanged(): boolean
  settle(): Promise<void>
  /** Reconciles them for the first time. */
  begin(stopping: AbortSignal): Promise<void>
  /** True once each that was running when `begin` was called has been adopted, or its start has been tried. */
  hasTriedAll(): boolean
}

export function createReconcileAll(dependencies: {
  readonly store: { readonly rows: Pick<DeploymentStore['rows'], 'running'> }
  readonly others: Pick<Others, 'refresh' | 'settle'>
  readonly locks: Pick<DeploymentLocks, 'ended'>
  readonly reconcile: Reconcile
  readonly logger: Logger
}): ReconcileAll {
  const { store, others, locks, reconcile, logger } = dependencies
  const underWay = new Set<Promise<void>>()
  let triedAll = false
  let seenEnded = 0
  const all: ReconcileAll = {
    mayHaveChanged: () => locks.ended() !== seenEnded,

    async run(stopping) {
      // Asked before the rows are read, which do not show what ends afterwards.
      seenEnded = locks.ended()
      let isSteady = true
      await others.refresh()
      for (const row of await store.rows.running()) {
        const work = reconcile(row, stopping)
        if (work === null) continue
        isSteady = false
        const one: Promise<void> = work
          .catch((error: unknown) => {
            logger.error({ err: error, deployment: row.id }, 'a release could not be reconciled')
          })
          .finally(() => underWay.delete(one))
        underWay.add(one)
      }
      return isSteady
    },
    async settle() {
      await Promise.all(underWay)
      await others.settle()
    },
    async begin(stopping) {
      await all.run(stopping)
      // Each has a deadline, and its failure is logged above. Instances that are being replaced serve.
      void Promise.all(underWay).then(() => {
        triedAll = true
      })
    },
    hasTriedAll: () => triedAll,
  }
  return all
}
