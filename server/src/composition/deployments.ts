import type { Traffic } from '../apps/traffic.ts'
import { createDiskGuard } from '../deployments/job/disk.ts'
import type { DeployJob } from '../deployments/job/job.ts'
import { createCreateDeployment } from '../deployments/owners/create.ts'
import { createDeployments } from '../deployments/owners/deployments.ts'
import { createDeploymentDetails } from '../deployments/owners/detail.ts'
import { deploymentHandlers } from '../deployments/owners/handlers.ts'
import { createLifecycle } from '../deployments/owners/lifecycle.ts'
import { createLogs } from '../deployments/owners/logs.ts'
import { createRemoveProject, type RemoveProject } from '../deployments/reconciler/remove.ts'
import type { Announce } from '../deployments/state/announce.ts'
import { createDeploymentLocks } from '../deployments/state/lock.ts'
import { createDeploymentSecrets, createReleaseOf } from '../deployments/state/secrets.ts'
import { createDeploymentStore, type DeploymentStore } from '../deployments/state/store.ts'
import type { HandlersOf } from '../http/call.ts'
import { createBackground } from '../platform/background.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import type { Outbound } from '../platform/outbound.ts'
import { planNamed } from '../platform/plans.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { limitsOf } from '../runtimes/limits.ts'
import { announce } from '../webhooks/outbox.ts'
import { type AppsFeature, composeApps, leadApps } from './apps.ts'
import { type Composition, finishTimeoutMs, type SharedParts } from './composition.ts'
import { composeDeployJob, composeJobParts } from './deploy-job.ts'
import type { DeploymentCore, DeploymentServices } from './deployment-parts.ts'
import { closeForgottenApps, composeGateway } from './gateway.ts'
import { startReconciler } from './reconciler.ts'
import { composeRuntimes, preferredRuntime } from './runtimes.ts'
import { composeCaches, composeSources } from './sources.ts'

/** The deployments feature, as other composers use it. */
export interface DeploymentsFeature {
  readonly handlers: HandlersOf<'deployments'>
  /** Counts the deployments of a project. */
  readonly count: (projectId: string) => Promise<number>
}

/** The work of the leader on deployments. */
export interface DeploymentsWork {
  readonly deploy: DeployJob
  readonly removeProject: RemoveProject
  /** Starts or adopts the apps that should run, and keeps them running. */
  start(): Promise<void>
}

export function composeDeployments(composition: Composition, { logs }: Pick<SharedParts, 'logs'>): DeploymentsFeature {
  const apps = composeApps(composition)
  const store = createDeploymentStore({ database: composition.state.db, apps: apps.apps })
  return {
    handlers: composeHandlers(composition, apps, store, { logs, announce: announceDeployment }),
    count: store.ofProjects.count,
  }
}

/** Makes the handlers of deployments. They read and write rows, and notify the leader of changes. */
function composeHandlers(
  { config, state, secrets, stack, retiring }: Composition,
  { apps, urlOf }: AppsFeature,
  store: DeploymentStore,
  given: Pick<SharedParts, 'logs'> & { readonly announce: Announce },
): HandlersOf<'deployments'> {
  const database = state.db
  const deploymentSecrets = createDeploymentSecrets(secrets)
  const details = createDeploymentDetails({ store, apps, secrets: deploymentSecrets, urlOf })
  const create = createCreateDeployment({
    store,
    findOrCreateApp: apps.findOrCreate,
    secrets: { box: secrets, ofDeployments: deploymentSecrets },
    plans: config.plans,
    disk: createDiskGuard({ directory: state.directory.root, reserveBytes: config.deploys.reserveBytes }),
    urlOf,
    allowFile: config.localMode,
    runtime: preferredRuntime,
  })
  return deploymentHandlers({
    deployments: createDeployments({ database, store, apps, details, create, urlOf }),
    lifecycle: createLifecycle({ store, details, announce: given.announce, urlOf }),
    logs: createLogs({
      database,
      store,
      secrets: deploymentSecrets,
      logs: given.logs,
      stopping: AbortSignal.any([stack.signal, retiring]),
    }),
  })
}

export async function leadDeployments(
  composition: Composition,
  given: Pick<SharedParts, 'logs'> & {
    readonly tenancy: Pick<Tenancy, 'planOf'>
    readonly traffic: Pick<Traffic, 'add'>
    readonly outbound: Outbound
    readonly epoch: number
    /** Throws when another server leads. */
    readonly fence: () => void
  },
): Promise<DeploymentsWork> {
  const { logs } = given
  composition.stack.defer('the recording of logs', async () => logs.release())
  const gateway = await composeGateway(composition, given)
  const caches = composeCaches(composition)
  const services: DeploymentServices = {
    apps: leadApps(composition, gateway),
    runtimes: await composeRuntimes(composition, caches, given.fence),
    logs,
    sources: await composeSources(composition, caches, given.outbound),
  }
  const core = composeCore(composition, services, given.tenancy)
  const parts = composeJobParts(composition, services, core, gateway)
  const removal = { closeAddress: services.apps.listening.close, ...parts, logs }
  return {
    deploy: composeDeployJob(composition, services, core, parts, { gateway, caches }),
    removeProject: createRemoveProject({
      ...removal,
      database: composition.state.db,
      store: core.store,
      apps: services.apps.apps,
      locks: core.locks,
      sources: services.sources,
    }),
    async start() {
      await closeForgottenApps(gateway, services.apps.apps)
      await startReconciler(composition, services, core, parts, { gateway, caches })
    },
  }
}

function composeCore(
  { config, logger, state, secrets, stack }: Composition,
  { apps: { apps } }: DeploymentServices,
  tenancy: Pick<Tenancy, 'planOf'>,
): DeploymentCore {
  const background = createBackground({ logger })
  stack.defer('background work', () => background.settle(config.deploys.drainMs + finishTimeoutMs))
  const deploymentSecrets = createDeploymentSecrets(secrets)
  return {
    store: createDeploymentStore({ database: state.db, apps }),
    secrets: deploymentSecrets,
    releaseOf: createReleaseOf({
      secrets: deploymentSecrets,
      limitsOf: async (projectId) => limitsOf(planNamed(config.plans, await tenancy.planOf(projectId))),
    }),
    locks: createDeploymentLocks(),
    appLock: createKeyedLock(),
    announce: announceDeployment,
    background,
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
