import { chooseOutput } from '../../builds/choose-output.ts'
import type { PlanApart } from '../../builds/planner.ts'
import { slugOf } from '../../contract/fields.ts'
import type { Gateway, PublicAddress } from '../../gateway/client.ts'
import type { LogStore } from '../../logs/log-store.ts'
import { createBackground } from '../../platform/background.ts'
import type { Config } from '../../platform/config.ts'
import type { DataDirectory } from '../../platform/data-directory.ts'
import { listen } from '../../platform/database/notifications.ts'
import type { Caches } from '../../platform/disk/caches.ts'
import { freeBytesIn } from '../../platform/disk/free-space.ts'
import { createVolumeFolders } from '../../platform/disk/volumes.ts'
import type { Task } from '../../platform/jobs.ts'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Outbound } from '../../platform/outbound.ts'
import { type Plan, planNamed } from '../../platform/plans.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { finishTimeoutMs } from '../../platform/shutdown.ts'
import { createSlots } from '../../platform/slots.ts'
import { limitsOf } from '../../runtimes/limits.ts'
import type { Runtimes } from '../../runtimes/runtimes.ts'
import type { Sources } from '../../sources/sources.ts'
import type { App, AppStore } from './app-directory.ts'
import { createBuildStep } from './build.ts'
import { createChangeFollower } from './change-follower.ts'
import { changesChannel } from './changes.ts'
import { createFindCommandTarget, type FindCommandTarget } from './command-target.ts'
import { createDeploy, createStartStep } from './deploy.ts'
import { createDeployJob } from './deploy-job.ts'
import { createDiskGuard } from './disk-guard.ts'
import { createDiskWatch } from './disk-watch.ts'
import { type AccountRights, createFetchStep } from './fetch.ts'
import { createGitAccess } from './git-credentials.ts'
import { askFor, createHealthCheck } from './health.ts'
import { createHealthWatch } from './health-watch.ts'
import { createInstanceControl, createRemoveApp } from './instances.ts'
import { createLinkedApps, type LinkedApps } from './links.ts'
import { createDeploymentLocks } from './lock.ts'
import { createMake, createMakeRelease, createPromote, createPullImage, createRegistryReach } from './make.ts'
import { type AnnounceOutcome, createFail, type UrlOf } from './outcome.ts'
import { desiredProcesses } from './process-types.ts'
import { deployTask, startTask } from './queue.ts'
import { createReplicas } from './reconcile-replicas.ts'
import { createReconcile, createReconcileAll, createReconciler, createRevive, createWaker } from './reconciler.ts'
import { createCredentialsFor } from './registries.ts'
import { createLastLines, createNoteInLog } from './release-log.ts'
import { createDraining, createReplicaControl, createStartReplicas } from './replicas.ts'
import { createRoutes } from './routes.ts'
import { createDeploymentStore } from './rows.ts'
import { createDeploymentSecrets, createReleaseOf } from './secrets.ts'
import { createSweep } from './sweep.ts'
import { createPrune, createRetire, createSwitchStep, type OnServing } from './switch.ts'
import { createRemoveDeployment, createRemoveProject, createTeardown, type RemoveProject } from './teardown.ts'
import { createSourceExpiry, createSourceFiles } from './uploads.ts'
import { createMeasureInstances, type MeasureInstances } from './usage.ts'
import { imageVolumesOf } from './volumes.ts'

/** The time in which an instance that has refused a connection may recover. */
const recoverMs = 5_000

interface Parts {
  readonly config: Pick<Config, 'plans' | 'deploys'>
  readonly directory: Pick<DataDirectory, 'root' | 'apps' | 'sources'>
  readonly secretBox: SecretBox
  readonly logger: Logger
  readonly logs: LogStore
  readonly rights: AccountRights
  readonly announce: AnnounceOutcome
  readonly urlOf: UrlOf
}

interface Listening {
  /** Does not reject when the address is taken. */
  open(app: App): Promise<void>
  retry(): Promise<void>
  isOpen(appId: string): boolean
  close(appId: string): Promise<void>
  /** Opens the closed addresses of listed apps, and closes the addresses of apps that are gone. */
  keepOnly(listApps: () => Promise<readonly App[]>): Promise<void>
}

export interface DeploymentsLeaderParts extends LeaderParts {
  readonly apps: AppStore
  readonly listening: Listening
  readonly noteRestart: (appId: string) => void
  readonly gateway: Gateway
  /** Returns the local listener of the gateway for the address of an app. */
  readonly listenerOf: (address: PublicAddress) => { readonly host: string; readonly port: number }
  readonly runtimes: Runtimes
  readonly sources: Sources
  readonly caches: Pick<Caches, 'trim'>
  readonly buildPlans: PlanApart
  readonly outbound: Pick<Outbound, 'mode' | 'resolve'>
  readonly planOf: (projectId: string) => Promise<string>
  readonly plansOfAll: () => Promise<ReadonlyMap<string, string>>
  readonly applySchedules: OnServing
}

export interface DeploymentsWork {
  /** The job that fetches, builds and starts a deployment. */
  readonly deployTasks: Readonly<Record<string, Task>>
  /** The job that starts a retained release, which is quick and must wait for no build. */
  readonly startTasks: Readonly<Record<string, Task>>
  readonly removeProject: RemoveProject
  readonly findCommandTarget: FindCommandTarget
  readonly linkedApps: LinkedApps & {
    readonly leaveMs: number
  }
  readonly measureInstances: MeasureInstances
  forgetSources(): Promise<void>
  /**
   * Starts or adopts the apps that should run, keeps them running, and watches their health and disk usage. The
   * returned function tells whether the start of every app has been tried.
   */
  start(): Promise<() => boolean>
}

export function leadDeployments(parts: Parts, leader: DeploymentsLeaderParts): DeploymentsWork {
  const { config, directory, secretBox, logger, logs, rights, announce, urlOf } = parts
  const { database, connection, stack, apps, listening, noteRestart, gateway, runtimes, sources, caches } = leader
  const settings = config.deploys
  const { reserveBytes, drainMs } = settings

  // Every part below reads rows and secrets, and the limits of plans.
  const store = createDeploymentStore({ database, apps })
  const secrets = createDeploymentSecrets(secretBox)
  const planOf = async (projectId: string) => planNamed(config.plans, await leader.planOf(projectId))
  const limitsOfProject = async (projectId: string) => limitsOf(await planOf(projectId))
  /** Returns one limit from the plan of each project, by project id. */
  const limitOfAll = async (limit: (plan: Plan) => number): Promise<ReadonlyMap<string, number>> =>
    new Map([...(await leader.plansOfAll())].map(([id, plan]) => [id, limit(planNamed(config.plans, plan))]))
  const releaseOf = createReleaseOf({ secrets, limitsOf: limitsOfProject, slugOf })

  // Locks and signals coordinate the parts. The lock of an app's route is always taken after the lock of a deployment.
  const locks = createDeploymentLocks()
  const routeLock = createKeyedLock()
  const waker = createWaker()
  const background = createBackground({ logger })
  stack.defer('background work', () => background.settle(drainMs + finishTimeoutMs))

  // Instances: the first of each release, its replicas, their addresses, health and end.
  const lastLines = createLastLines(logs)
  const note = createNoteInLog(logs)
  const instances = createInstanceControl({ runtimes, logs })
  const routes = createRoutes({ gateway, lock: routeLock, drainMs })
  const checkHealth = createHealthCheck({ instances, gateway, lastLines, note })
  const replicas = createReplicaControl({
    rows: store.instances,
    instances,
    checkHealth,
    draining: createDraining(
      (upstream, signal) => gateway.drain(upstream, { timeoutMs: drainMs, signal }),
      (work) => background.add(work, { what: 'ending an instance' }),
    ),
    settings,
  })
  const teardown = createTeardown({ store, locks, instances, routes })
  const removeApp = createRemoveApp({ runtimes, logs })
  const fail = createFail({ database, jobs: store.jobs, ofProjects: store.ofProjects, apps, announce, urlOf })

  // The files of a release: built from sources, pulled as an image, or copied from another release.
  const slots = createSlots<string>(settings.builds)
  const disk = createDiskGuard({ directory: directory.root, reserveBytes })
  const uploads = createSourceFiles({ directory: directory.sources })
  const credentialsFor = createCredentialsFor({ database, secretBox })
  const fetch = createFetchStep({
    sources,
    packOf: uploads.pathOf,
    rights,
    disk,
    secrets,
    accessOf: createGitAccess({ database, secretBox, secrets }),
    jobs: store.jobs,
    note,
    settings,
  })
  const build = createBuildStep({ logs, slots, jobs: store.jobs, lastLines, disk, credentialsFor, settings })
  const make = createMake({
    ofSources: createMakeRelease({
      runtimes,
      jobs: store.jobs,
      rows: store.rows,
      fetch,
      plans: leader.buildPlans,
      chooseOutput,
      build,
    }),
    pullImage: createPullImage({
      runtimes,
      logs,
      credentialsFor,
      assertReachable: createRegistryReach(leader.outbound),
      volumesOf: (appId) => imageVolumesOf(database, appId),
      jobs: store.jobs,
      disk,
      settings,
    }),
    promote: createPromote({ runtimes, rows: store.rows, locks, disk, build, note, slots, settings }),
  })

  // The deploy job makes a release, starts it, checks it, and gives it the address of its app.
  const startReplicas = createStartReplicas({
    replicas,
    rowsOf: store.instances.of,
    mostInstances: async (projectId) => (await planOf(projectId)).instances,
    processesOf: async (row, plan) => desiredProcesses(plan, await store.scales.of(database, row.app_id)),
  })
  const retire = createRetire({ locks, teardown, prune: createPrune({ store, logs, teardown }), background })
  const switchOver = createSwitchStep({
    gateway,
    lock: routeLock,
    listenerOf: ({ address }) => leader.listenerOf(address),
    database,
    store,
    announce,
    urlOf,
    onServing: leader.applySchedules,
    retire(...replaced) {
      retire(...replaced)
      // The reconciler starts the other process types of the release.
      waker.wake()
    },
  })
  const deploy = createDeploy({
    apps,
    store,
    releaseOf,
    make,
    start: createStartStep({ instances, routes }),
    checkHealth,
    startReplicas,
    switchOver,
    afterMaking: ({ id }) => background.add(caches.trim(), { deployment: id, what: 'trimming caches' }),
    settings,
  })
  const runJob = createDeployJob({ store, locks, instances, secrets, deploy, fail, logger })
  const task: Task = (job, signal) => runJob(String(job['deployment_id']), signal)

  // The functions for other features and for the hourly housekeeping.
  const expiry = createSourceExpiry({ database, files: uploads, days: settings.sourceRetentionDays })
  const removeProject = createRemoveProject({
    database,
    store,
    apps,
    locks,
    teardown,
    logs,
    closeAddress: listening.close,
    removeApp,
    sources: [sources, expiry],
  })
  const findCommandTarget = createFindCommandTarget({
    database,
    store,
    apps,
    releaseOf,
    runtimes,
    instances,
    locks,
    teardown,
  })
  const linked = createLinkedApps({ database, secretBox, secrets })
  const measureInstances = createMeasureInstances({
    store,
    instances,
    usageOf: (handle) => runtimes.named(handle.runtime).instances.usage(handle),
    limitsOf: limitsOfProject,
    logger,
  })

  return {
    deployTasks: { [deployTask]: task },
    startTasks: { [startTask]: task },
    removeProject,
    findCommandTarget,
    linkedApps: {
      follow: linked.follow,
      haveFollowed: linked.haveFollowed,
      // An instance needs time to lose its address, to finish its requests, and to end.
      leaveMs: drainMs + 2 * finishTimeoutMs,
    },
    measureInstances,
    forgetSources: expiry.forget,
    start,
  }

  async function start(): Promise<() => boolean> {
    const follower = createChangeFollower({
      database,
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
    instances.onEnded(waker.wake)
    const refused = new Set<string>()
    const stopListening = gateway.onRefused(({ appId, deploymentId }) => {
      logger.debug({ app: appId, deployment: deploymentId }, 'an instance refused a connection')
      refused.add(deploymentId)
      waker.wake()
    })
    stack.defer('refusals', async () => stopListening())

    const desiredReplicas = createReplicas({
      store,
      rows: store.instances,
      scales: store.scales,
      mostOfAll: () => limitOfAll((plan) => plan.instances),
      replicas,
      instances,
      gateway,
      drain: (upstream, signal) => gateway.drain(upstream, { timeoutMs: drainMs, signal }),
      routes,
      noteRestart,
      logger,
    })
    const revive = createRevive({
      store,
      instances,
      routes,
      checkHealth,
      lastLines,
      fail,
      secrets,
      settings,
      noteRestart,
      logger,
    })
    const reconcile = createReconcile({
      replicas: desiredReplicas,
      refusals: { ids: refused, recoverMs },
      store,
      locks,
      instances,
      gateway,
      routes: { route: routes.route, unroute: routes.unroute, isOpen: listening.isOpen },
      releaseOf: async (row) => releaseOf(row, await apps.get(row.app_id)),
      revive,
    })
    const sweep = createSweep({
      database,
      store,
      apps,
      runtimes,
      logs,
      removeApp,
      clearVolumes: createVolumeFolders(directory.apps).clear,
      locks,
      teardown,
      logger,
    })
    const reconciler = createReconciler({
      listApps: apps.list,
      listening,
      interruptOutdated: follower.interruptOutdated,
      sweep,
      reconcileAll: createReconcileAll({ store, replicas: desiredReplicas, locks, reconcile, logger }),
      waker,
      store,
      gateway,
      instances,
      logger,
    })
    const diskWatch = createDiskWatch({
      store,
      locks,
      runtimes,
      routes,
      instances,
      freeBytes: () => freeBytesIn(directory.root),
      fail,
      mostBytesOfAll: () => limitOfAll((plan) => limitsOf(plan).diskBytes),
      reserveBytes,
      logger,
    })
    const healthWatch = createHealthWatch({
      store,
      locks,
      instances,
      isExpected: desiredReplicas.isExpected,
      ask: (endpoint, path, signal) => askFor(gateway, endpoint, path, signal),
      routes,
      gateway,
      note,
      logger,
    })

    const watching = new AbortController()
    await reconciler.begin(watching.signal)
    // The caps may have changed since the last start.
    background.add(caches.trim(), { what: 'trimming caches' })
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
      connection,
      logger,
      channels: { [changesChannel]: follower.changed },
      onListening: reconciler.lookAgain,
    })
    stack.defer('listening for changes', () => listener.stop())
    logger.info('apps are reconciled')
    return reconciler.hasTriedAll
  }
}
