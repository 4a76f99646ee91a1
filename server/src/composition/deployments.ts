import type { Traffic } from '../apps/traffic.ts'
import type { DeployJob } from '../deployments/job/job.ts'
import { createRemoveProject, type RemoveProject } from '../deployments/reconciler/remove.ts'
import type { Announce } from '../deployments/state/announce.ts'
import { createDeploymentLocks } from '../deployments/state/lock.ts'
import { createDeploymentSecrets, createReleaseOf } from '../deployments/state/secrets.ts'
import { createDeploymentStore } from '../deployments/state/store.ts'
import type { HandlersOf } from '../http/call.ts'
import { createBackground } from '../platform/background.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import type { Outbound } from '../platform/outbound.ts'
import { planNamed } from '../platform/plans.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { limitsOf } from '../runtimes/limits.ts'
import { announce } from '../webhooks/outbox.ts'
import { composeApps, leadApps } from './apps.ts'
import { type Composition, finishTimeoutMs, type SharedParts } from './composition.ts'
import { composeDeployJob, composeJobParts } from './deploy-job.ts'
import type { DeploymentCore, DeploymentServices } from './deployment-parts.ts'
import { composeDeploymentHandlers } from './deployment-requests.ts'
import { closeForgottenApps, composeGateway } from './gateway.ts'
import { startReconciler } from './reconciler.ts'
import { composeRuntimes } from './runtimes.ts'
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
    handlers: composeDeploymentHandlers(composition, apps, store, { logs, announce: announceDeployment }),
    count: store.ofProjects.count,
  }
}

export async function leadDeployments(
  composition: Composition,
  given: Pick<SharedParts, 'logs'> & {
    readonly tenancy: Pick<Tenancy, 'planOf'>
    readonly traffic: Pick<Traffic, 'add'>
    readonly outbound: Outbound
  },
): Promise<DeploymentsWork> {
  const { logs } = given
  const gateway = await composeGateway(composition, given.traffic)
  const caches = composeCaches(composition)
  const services: DeploymentServices = {
    apps: leadApps(composition, gateway),
    runtimes: await composeRuntimes(composition, caches),
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
