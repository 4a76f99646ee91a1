import { type ChangeFollower, createChangeFollower } from '../deployments/change-follower.ts'
import { changesChannel } from '../deployments/changes.ts'
import { createDiskWatch, type DiskWatch } from '../deployments/disk-watch.ts'
import { askFor } from '../deployments/health.ts'
import { createHealthWatch } from '../deployments/health-watch.ts'
import { createReplicas, type Replicas, type ReplicasDependencies } from '../deployments/reconcile-replicas.ts'
import {
  createReconcile,
  createReconcileAll,
  createReconciler,
  createRevive,
  type Reconciler,
} from '../deployments/reconciler.ts'
import { createNoteInLog } from '../deployments/release-log.ts'
import { createSweep } from '../deployments/sweep.ts'
import { createRemoveDeployment } from '../deployments/teardown.ts'
import type { Gateway } from '../gateway/client.ts'
import { listen } from '../platform/database/notifications.ts'
import type { Caches } from '../platform/disk/caches.ts'
import { freeBytesIn } from '../platform/disk/free-space.ts'
import { createVolumeFolders } from '../platform/disk/volumes.ts'
import type { Plan } from '../platform/plans.ts'
import { limitsOf } from '../runtimes/limits.ts'
import type { Composition } from './composition.ts'
import type { DeployJobParts, DeploymentCore, DeploymentServices } from './deployment-parts.ts'

/**
 * Creates the reconciler, and starts to watch all running releases and the disk usage of apps. Resolves to a function
 * that tells whether the start of every app has been tried.
 */
export async function startReconciler(
  composition: Composition,
  services: DeploymentServices,
  core: DeploymentCore,
  parts: DeployJobParts,
  given: {
    readonly gateway: Gateway
    readonly caches: Caches
    /** Called at each restart of an instance. */
    readonly noteRestart: (appId: string) => void
  },
): Promise<() => boolean> {
  const { logger, state, stack } = composition
  const { store, locks, background } = core
  const { routes, instances } = parts
  const follower = composeFollower(composition, services, core, parts)
  const replicas = composeReplicas(composition, core, parts, given)
  const reconciler = composeReconciler(composition, services, core, parts, { ...given, follower, replicas })
  const diskWatch = composeDiskWatch(composition, services, core, parts)
  const healthWatch = createHealthWatch({
    ...{ store, locks, instances, routes, logger, gateway: given.gateway, isExpected: replicas.isExpected },
    ask: (endpoint, path, signal) => askFor(given.gateway, endpoint, path, signal),
    note: createNoteInLog(services.logs),
  })
  const watching = new AbortController()
  await reconciler.begin(watching.signal)
  // The caps may have changed since the last start.
  background.add(given.caches.trim(), { what: 'trimming caches' })
  const watches = [
    reconciler.watch(watching.signal),
    diskWatch.watch(watching.signal),
    healthWatch.watch(watching.signal),
  ]
  stack.defer('apps', async (scope) => {
    watching.abort()
    await Promise.all(watches)
    if (scope === 'all') await reconciler.stopAll()
  })
  const listener = listen({
    connection: state.connection,
    logger,
    channels: { [changesChannel]: follower.changed },
    onListening: reconciler.lookAgain,
  })
  stack.defer('listening for changes', () => listener.stop())
  logger.info('apps are reconciled')
  return reconciler.hasTriedAll
}

function composeDiskWatch(
  { config, logger, state }: Composition,
  { runtimes }: Pick<DeploymentServices, 'runtimes'>,
  { store, locks, plansOfAll }: DeploymentCore,
  { routes, instances, fail }: DeployJobParts,
): DiskWatch {
  return createDiskWatch({
    ...{ store, locks, runtimes, routes, instances, fail, logger },
    freeBytes: () => freeBytesIn(state.directory.root),
    mostBytesOfAll: () => ofEach(plansOfAll, (plan) => limitsOf(plan).diskBytes),
    reserveBytes: config.deploys.reserveBytes,
  })
}

/** Returns one limit from the plan of each project, by project id. */
async function ofEach(
  plansOfAll: DeploymentCore['plansOfAll'],
  limit: (plan: Plan) => number,
): Promise<ReadonlyMap<string, number>> {
  return new Map([...(await plansOfAll())].map(([id, plan]) => [id, limit(plan)]))
}

function composeReplicas(
  { config, logger }: Composition,
  { store, plansOfAll }: DeploymentCore,
  { replicas, instances, routes }: DeployJobParts,
  { gateway, noteRestart }: { readonly gateway: Gateway; readonly noteRestart: (appId: string) => void },
): Replicas {
  const { instances: rows, scales } = store
  const mostOfAll = () => ofEach(plansOfAll, (plan) => plan.instances)
  const drain: ReplicasDependencies['drain'] = (upstream, signal) =>
    gateway.drain(upstream, { timeoutMs: config.deploys.drainMs, signal })
  return createReplicas({
    store,
    rows,
    scales,
    mostOfAll,
    replicas,
    instances,
    gateway,
    drain,
    routes,
    noteRestart,
    logger,
  })
}

function composeFollower(
  { state }: Composition,
  { apps: { apps, listening }, logs }: DeploymentServices,
  { store, locks, background, waker }: DeploymentCore,
  { teardown, removeApp }: DeployJobParts,
): ChangeFollower {
  return createChangeFollower({
    database: state.db,
    store,
    apps,
    locks,
    addresses: listening,
    removeApp,
    teardown,
    remove: createRemoveDeployment({ teardown, logs }),
    background,
    wake: waker.wake,
  })
}

function composeReconciler(
  { config, logger, state, stack }: Composition,
  { apps: { apps, listening }, runtimes, logs }: DeploymentServices,
  { store, locks, secrets, releaseOf, waker }: DeploymentCore,
  { instances, routes, checkHealth, lastLines, fail, teardown, removeApp }: DeployJobParts,
  given: {
    readonly gateway: Gateway
    readonly follower: ChangeFollower
    readonly replicas: Replicas
    readonly noteRestart: (appId: string) => void
  },
): Reconciler {
  const { gateway, follower, replicas, noteRestart } = given
  instances.onEnded(waker.wake)
  const refused = new Set<string>()
  const stopListening = gateway.onRefused(({ appId, deploymentId }) => {
    logger.debug({ app: appId, deployment: deploymentId }, 'an instance refused a connection')
    refused.add(deploymentId)
    waker.wake()
  })
  stack.defer('refusals', async () => stopListening())
  const revive = createRevive({
    ...{ store, instances, routes, checkHealth, lastLines, fail, secrets },
    ...{ settings: config.deploys, noteRestart, logger },
  })
  const reconcile = createReconcile({
    replicas,
    refusals: { ids: refused, recoverMs: 5_000 },
    store,
    locks,
    instances,
    gateway,
    routes: { ...routes, isOpen: listening.isOpen },
    releaseOf: async (row) => releaseOf(row, await apps.get(row.app_id)),
    revive,
  })
  return createReconciler({
    listApps: apps.list,
    listening,
    interruptOutdated: follower.interruptOutdated,
    sweep: createSweep({
      ...{ database: state.db, store, apps, runtimes, logs, removeApp, locks, teardown, logger },
      clearVolumes: createVolumeFolders(state.directory.apps).clear,
    }),
    reconcileAll: createReconcileAll({ store, replicas, locks, reconcile, logger }),
    waker,
    store,
    gateway,
    instances,
    logger,
  })
}
