import { createDiskWatch } from '../deployments/reconciler/disk-watch.ts'
import { type ChangeFollower, createChangeFollower } from '../deployments/reconciler/follow-changes.ts'
import { createLiveness } from '../deployments/reconciler/liveness.ts'
import { createReconcile, createReconcileAll } from '../deployments/reconciler/reconcile.ts'
import { createReconciler, type Reconciler } from '../deployments/reconciler/reconciler.ts'
import { createRemoveDeployment } from '../deployments/reconciler/remove.ts'
import { createRevive } from '../deployments/reconciler/revive.ts'
import { createSweep } from '../deployments/reconciler/sweep.ts'
import { createWaker } from '../deployments/reconciler/waker.ts'
import { changesChannel } from '../deployments/state/changes.ts'
import type { Gateway } from '../gateway/client.ts'
import { listen } from '../platform/database/notifications.ts'
import type { Caches } from '../platform/disk/caches.ts'
import type { Composition } from './composition.ts'
import type { DeployJobParts, DeploymentCore, DeploymentServices } from './deployment-parts.ts'

/** Creates the reconciler, and begins to watch every running release and the disk usage of apps. */
export async function startReconciler(
  composition: Composition,
  services: DeploymentServices,
  core: DeploymentCore,
  parts: DeployJobParts,
  given: { readonly gateway: Gateway; readonly caches: Caches },
): Promise<void> {
  const { config, logger, state, stack } = composition
  const { store, locks, background } = core
  const { routes, instances, disk, fail } = parts
  const follower = composeFollower(composition, services, core, parts)
  const reconciler = composeReconciler(composition, services, core, parts, { ...given, follower })
  const diskWatch = createDiskWatch({
    store,
    locks,
    runtimes: services.runtimes,
    routes,
    instances,
    disk,
    fail,
    mostAppBytes: config.deploys.mostAppBytes,
    logger,
  })
  await reconciler.begin()
  // The caps may have changed since the last start.
  background.add(given.caches.trim(), { what: 'trimming caches' })
  const watching = new AbortController()
  const watches = [reconciler.watch(watching.signal), diskWatch.watch(watching.signal)]
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
}

function composeFollower(
  { state }: Composition,
  { apps: { apps, listening }, logs }: DeploymentServices,
  { store, locks, background }: DeploymentCore,
  { teardown, removeApp }: DeployJobParts,
): ChangeFollower {
  return createChangeFollower({
    database: state.db,
    store,
    apps,
    locks,
    openAddress: listening.open,
    teardown,
    remove: createRemoveDeployment({ closeAddress: listening.close, teardown, removeApp, logs }),
    background,
  })
}

function composeReconciler(
  { config, logger, state, stack }: Composition,
  { apps: { apps, listening }, runtimes, logs }: DeploymentServices,
  { store, locks, secrets, releaseOf }: DeploymentCore,
  { instances, routes, checkHealth, lastLines, fail, teardown, removeApp }: DeployJobParts,
  { gateway, follower }: { readonly gateway: Gateway; readonly follower: ChangeFollower },
): Reconciler {
  const waker = createWaker()
  const liveness = createLiveness(instances, waker.wake)
  const stopListening = gateway.onRefused(({ appId, deploymentId }) => {
    logger.debug({ app: appId, deployment: deploymentId }, 'an instance refused a connection')
    waker.wake()
  })
  stack.defer('refusals', async () => stopListening())
  const revive = createRevive({
    store,
    instances,
    routes,
    checkHealth,
    lastLines,
    fail,
    secrets,
    settings: config.deploys,
    logger,
  })
  const reconcile = createReconcile({
    apps,
    store,
    locks,
    instances,
    liveness,
    gateway,
    routes,
    isOpen: listening.isOpen,
    releaseOf,
    revive,
  })
  return createReconciler({
    listApps: apps.list,
    listening,
    interruptOutdated: follower.interruptOutdated,
    sweep: createSweep({ database: state.db, store, apps, runtimes, logs, removeApp, locks, teardown, logger }),
    reconcileAll: createReconcileAll({ store, reconcile, liveness, logger }),
    waker,
    store,
    gateway,
    instances,
    logger,
  })
}
