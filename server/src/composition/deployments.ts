import type { AppStore } from '../apps/apps.ts'
import type { Apps, AppsWork } from '../apps/index.ts'
import { notFound } from '../contract/errors.ts'
import { slugOf } from '../contract/fields.ts'
import type { LinkedApps } from '../databases/index.ts'
import { activityHandlers } from '../deployments/apps.ts'
import { createFindCommandTarget, type FindCommandTarget } from '../deployments/command-target.ts'
import type { DeployJob } from '../deployments/deploy-job.ts'
import {
  createDeploymentDetails,
  createDeployments,
  createLifecycle,
  deploymentHandlers,
} from '../deployments/deployments.ts'
import { createLinkedApps } from '../deployments/links.ts'
import { createDeploymentLocks } from '../deployments/lock.ts'
import { createLogs } from '../deployments/logs.ts'
import type { Announce } from '../deployments/outcome.ts'
import { processHandlers } from '../deployments/processes.ts'
import type { ProjectReads } from '../deployments/reads.ts'
import { createWaker } from '../deployments/reconciler.ts'
import { registryHandlers } from '../deployments/registries.ts'
import { createDeploymentStore, type DeploymentStore } from '../deployments/rows.ts'
import { createDeploymentSecrets, createReleaseOf } from '../deployments/secrets.ts'
import { createRemoveProject, type RemoveProject } from '../deployments/teardown.ts'
import { createMeasureInstances, type MeasureInstances } from '../deployments/usage.ts'
import { volumeHandlers } from '../deployments/volumes.ts'
import type { Domains } from '../domains/index.ts'
import type { GatewayProcess, RunAs } from '../gateway/gateway.ts'
import { closeForgottenApps, startGateway } from '../gateway/start.ts'
import type { HandlersOf } from '../http/call.ts'
import type { Totals } from '../platform/account-limits.ts'
import { createBackground } from '../platform/background.ts'
import type { BatchedRead } from '../platform/database/batcher.ts'
import type { Transaction } from '../platform/database.ts'
import { createCaches } from '../platform/disk/caches.ts'
import { assertRoom } from '../platform/disk/free-space.ts'
import { createVolumeFolders } from '../platform/disk/volumes.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import type { Outbound } from '../platform/outbound.ts'
import { planNamed } from '../platform/plans.ts'
import { finishTimeoutMs } from '../platform/shutdown.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import type { Runs, RunsParts } from '../runs/index.ts'
import { isKeptCache, runtimeCacheFolders } from '../runtimes/caches.ts'
import { limitsOf } from '../runtimes/limits.ts'
import { startRuntimes } from '../runtimes/start.ts'
import { openSources, repositoryCacheFolders } from '../sources/open.ts'
import { announce } from '../webhooks/outbox.ts'
import type { Composition, RequestTurns, SharedParts } from './composition.ts'
import { composeDeployJob, composeJobParts } from './deploy-job.ts'
import type { DeployJobParts, DeploymentApps, DeploymentCore, DeploymentServices } from './deployment-parts.ts'
import { startReconciler } from './reconciler.ts'
import { composeReleases, type DatabaseLinks } from './requests/releases.ts'
import { type AccountRights, composeAccountRights, composeUploads, leadUploads } from './sources.ts'

/** The parts of the deployments feature that other composers use. */
export interface DeploymentsFeature {
  readonly handlers: HandlersOf<
    | 'deployments'
    | 'apps'
    | 'releases'
    | 'variables'
    | 'links'
    | 'gitCredentials'
    | 'registries'
    | 'processes'
    | 'volumes'
    | 'activity'
    | 'logs'
    | 'sources'
  >
  /** Links databases to apps. */
  readonly links: DatabaseLinks
  /**
   * Throws `not_found` unless the project has the app. Inside a transaction, prevents the deletion of the app until the
   * end.
   */
  readonly assertApp: RunsParts['assertApp']
  /** Locks an app until the transaction ends. Throws `not_found`. */
  readonly holdApp: AppStore['hold']
  /** Counts the deployments of a project. */
  readonly count: BatchedRead<string, number>
  readonly ofAccount: Pick<ProjectReads, 'countApps' | 'countBuilding'>
  readonly appsOfProjects: AppStore['ofProjects']
}

export interface DeploymentsWork {
  readonly gateway: GatewayProcess
  /** The user of the gateway process; `null` for the user of the server. */
  readonly runAs: RunAs | null
  readonly deploy: DeployJob
  readonly removeProject: RemoveProject
  /** Finds the instances next to which commands of apps run. */
  readonly findCommandTarget: FindCommandTarget
  /** The linked apps, for rotations of database passwords. */
  readonly linkedApps: LinkedApps
  readonly measureInstances: MeasureInstances
  /** Removes uploaded sources that are no longer used. */
  readonly forgetSources: () => Promise<void>
  /**
   * Starts or adopts the apps that should run, and keeps them running. Resolves to a function that tells whether the
   * start of every app has been tried.
   */
  start(): Promise<() => boolean>
}

export async function composeDeployments(
  composition: Composition,
  {
    apps: { store: appStore, urlOf, latestUsage },
    logs,
    totals,
    tenancy,
    domainsOf,
    ...turns
  }: Pick<SharedParts, 'logs'> &
    RequestTurns & {
      readonly apps: Pick<Apps, 'store' | 'urlOf' | 'latestUsage'>
      readonly totals: Totals
      readonly tenancy: Pick<Tenancy, 'find' | 'hold'>
      readonly domainsOf: Domains['namesOf']
    },
): Promise<DeploymentsFeature> {
  const apps: DeploymentApps = { apps: appStore, urlOf }
  const store = createDeploymentStore({ database: composition.state.db, apps: apps.apps })
  const { links, handlers } = composeHandlers(composition, apps, store, {
    logs,
    totals,
    findProject: tenancy.find,
    announce: announceDeployment,
    rights: await composeAccountRights(composition),
    domainsOf,
  })
  return {
    links,
    handlers: {
      ...handlers,
      ...activityHandlers({ database: composition.state.db, store, apps: apps.apps }),
      ...processHandlers({
        database: composition.state.db,
        store,
        apps: apps.apps,
        plans: composition.config.plans,
        latestUsage,
      }),
      ...volumeHandlers({
        database: composition.state.db,
        store,
        apps: apps.apps,
        folders: createVolumeFolders(composition.state.directory.apps),
        plans: composition.config.plans,
      }),
      ...registryHandlers({ database: composition.state.db, secretBox: composition.secrets }),
      ...composeUploads(composition, { totals, ...turns, holdProject: tenancy.hold }),
    },
    async assertApp(on, projectId, appId) {
      if (on.isTransaction) await apps.apps.keep(on as Transaction, projectId, appId)
      else if ((await apps.apps.find(on, projectId, appId)) === undefined) throw notFound()
    },
    holdApp: apps.apps.hold,
    count: store.ofProjects.count,
    ofAccount: store.ofProjects,
    appsOfProjects: apps.apps.ofProjects,
  }
}

/** Creates the handlers of deployments. They read and write rows, and notify the leader of changes. */
function composeHandlers(
  composition: Composition,
  { apps, urlOf }: DeploymentApps,
  store: DeploymentStore,
  given: Pick<SharedParts, 'logs'> & {
    readonly announce: Announce
    readonly totals: Totals
    readonly findProject: Tenancy['find']
    readonly domainsOf: Domains['namesOf']
    readonly rights: AccountRights
  },
): {
  readonly handlers: HandlersOf<'deployments' | 'logs' | 'apps' | 'releases' | 'variables' | 'links' | 'gitCredentials'>
  readonly links: DatabaseLinks
} {
  const { config, state, secrets, stack, retiring } = composition
  const database = state.db
  const deploymentSecrets = createDeploymentSecrets(secrets)
  const details = createDeploymentDetails({ store, apps, secrets: deploymentSecrets, urlOf })
  const room = () => assertRoom(state.directory.root, config.deploys.reserveBytes)
  const releases = composeReleases(composition, { apps, urlOf }, store, {
    ...given,
    database,
    secrets: deploymentSecrets,
    assertRoom: room,
  })
  return {
    links: releases.links,
    handlers: {
      ...releases.handlers,
      ...deploymentHandlers({
        deployments: createDeployments({ database, store, apps, details, create: releases.create, urlOf }),
        lifecycle: createLifecycle({
          store,
          details,
          assertRoom: room,
          totals: given.totals,
          announce: given.announce,
          urlOf,
        }),
        logs: createLogs({
          database,
          store,
          secrets: deploymentSecrets,
          logs: given.logs,
          findProject: given.findProject,
          mostFollowers: async (accountId) => (await given.totals.of(database, accountId)).log_followers,
          stopping: AbortSignal.any([stack.signal, retiring]),
        }),
      }),
    },
  }
}

export async function leadDeployments(
  composition: Composition,
  given: Pick<SharedParts, 'logs'> & {
    readonly tenancy: Pick<Tenancy, 'planOf' | 'plans'>
    readonly apps: Pick<AppsWork, 'store' | 'urlOf' | 'listen' | 'countTraffic' | 'isDemandHigh' | 'noteRestart'>
    readonly outbound: Outbound
    readonly applyFile: Runs['applyFile']
    readonly epoch: number
    /** Throws when another server leads. */
    readonly fence: () => void
  },
): Promise<DeploymentsWork> {
  const { logs } = given
  composition.stack.defer('the recording of logs', async () => logs.release())
  const { config, state, stack, logger } = composition
  const { directory } = state
  const { countTraffic, isDemandHigh } = given.apps
  const { gateway, runAs } = await startGateway({ config, directory, stack, logger, epoch: given.epoch, countTraffic })
  const caches = createCaches({
    mostEachBytes: config.deploys.mostEachCacheBytes,
    mostAllBytes: config.deploys.mostAllCachesBytes,
    list: async () => [...(await repositoryCacheFolders(directory.git)), ...(await runtimeCacheFolders(directory))],
    isKept: (path) => isKeptCache(directory, path),
  })
  const { runtimes, tools, publish } = await startRuntimes({
    config,
    directory,
    stack,
    logger,
    caches,
    fence: given.fence,
    siteReader: runAs?.user ?? null,
    leavesCore: isDemandHigh,
    moreRuntimes: composition.moreRuntimes,
    preferredRuntime: composition.preferredRuntime,
    host: composition.host,
  })
  const services: DeploymentServices = {
    apps: { apps: given.apps.store, urlOf: given.apps.urlOf, listening: given.apps.listen(gateway, publish) },
    runtimes,
    logs,
    sources: await openSources({
      directory: directory.git,
      confined: tools,
      environment: config.deploys.environment,
      sshAgent: config.sshAgent,
      mostSourceBytes: config.deploys.mostSourceBytes,
      caches,
      outbound: given.outbound,
    }),
    rights: await composeAccountRights(composition),
    outbound: given.outbound,
  }
  const core = composeCore(composition, services, given.tenancy)
  const parts = composeJobParts(composition, services, core, gateway)
  const uploads = leadUploads(composition)
  const removal = { closeAddress: services.apps.listening.close, ...parts, logs }
  return {
    gateway,
    runAs,
    deploy: composeDeployJob(composition, services, core, parts, { gateway, caches, applyFile: given.applyFile }),
    removeProject: createRemoveProject({
      ...removal,
      database: composition.state.db,
      store: core.store,
      apps: services.apps.apps,
      locks: core.locks,
      sources: [services.sources, uploads],
    }),
    findCommandTarget: composeCommandTarget(composition, services, core, parts),
    linkedApps: {
      ...createLinkedApps({ database: composition.state.db, secretBox: composition.secrets, secrets: core.secrets }),
      // An instance needs time to lose its address, to finish its requests, and to end.
      leaveMs: composition.config.deploys.drainMs + 2 * finishTimeoutMs,
    },
    measureInstances: composeMeasuring(composition, services, core, parts),
    forgetSources: uploads.forget,
    async start() {
      await closeForgottenApps(gateway, services.apps.apps)
      return startReconciler(composition, services, core, parts, {
        gateway,
        caches,
        noteRestart: given.apps.noteRestart,
      })
    },
  }
}

function composeCommandTarget(
  { state }: Pick<Composition, 'state'>,
  { apps: { apps }, runtimes }: Pick<DeploymentServices, 'apps' | 'runtimes'>,
  core: DeploymentCore,
  { instances, teardown }: Pick<DeployJobParts, 'instances' | 'teardown'>,
): FindCommandTarget {
  return createFindCommandTarget({ ...core, database: state.db, apps, runtimes, instances, teardown })
}

function composeMeasuring(
  { logger }: Pick<Composition, 'logger'>,
  { runtimes }: Pick<DeploymentServices, 'runtimes'>,
  { store, limitsOf: limitsOfProject }: DeploymentCore,
  { instances }: Pick<DeployJobParts, 'instances'>,
): MeasureInstances {
  return createMeasureInstances({
    store,
    instances,
    usageOf: (handle) => runtimes.named(handle.runtime).instances.usage(handle),
    limitsOf: limitsOfProject,
    logger,
  })
}

function composeCore(
  { config, logger, state, secrets, stack }: Composition,
  { apps: { apps } }: DeploymentServices,
  tenancy: Pick<Tenancy, 'planOf' | 'plans'>,
): DeploymentCore {
  const background = createBackground({ logger })
  stack.defer('background work', () => background.settle(config.deploys.drainMs + finishTimeoutMs))
  const deploymentSecrets = createDeploymentSecrets(secrets)
  const planOf = async (projectId: string) => planNamed(config.plans, await tenancy.planOf(projectId))
  const limitsOfProject = async (projectId: string) => limitsOf(await planOf(projectId))
  return {
    store: createDeploymentStore({ database: state.db, apps }),
    secrets: deploymentSecrets,
    limitsOf: limitsOfProject,
    releaseOf: createReleaseOf({ secrets: deploymentSecrets, limitsOf: limitsOfProject, slugOf }),
    mostInstances: async (projectId) => (await planOf(projectId)).instances,
    async plansOfAll() {
      const plans = await tenancy.plans()
      return new Map([...plans].map(([id, plan]) => [id, planNamed(config.plans, plan)]))
    },
    locks: createDeploymentLocks(),
    appLock: createKeyedLock(),
    announce: announceDeployment,
    background,
    waker: createWaker(),
  }
}

/** Announces the outcome of a deployment to the webhooks of its account. */
const announceDeployment: Announce = (transaction, { event, row, url, ...more }) =>
  announce(transaction, {
    accountId: row.account_id,
    projectId: row.project_id,
    event,
    data: { deployment_id: row.id, project_id: row.project_id, url, ...more },
  })
