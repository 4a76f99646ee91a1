import type { Traffic } from '../apps/traffic.ts'
import type { DeployJob } from '../deployments/job/job.ts'
import type { RemoveProject } from '../deployments/owners/remove.ts'
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
import { composeApps } from './apps.ts'
import { type Composition, finishTimeoutMs } from './composition.ts'
import { composeDeployJob, composeJobParts } from './deploy-job.ts'
import type { DeploymentCore, DeploymentServices } from './deployment-parts.ts'
import { composeRequests } from './deployment-requests.ts'
import { closeForgottenApps, composeGateway } from './gateway.ts'
import { startReconciler } from './reconciler.ts'
import { composeLogs, composeRuntimes } from './runtimes.ts'
import { composeCaches, composeSources } from './sources.ts'

/** The deployments feature, as other composers use it. */
export interface DeploymentsFeature {
  readonly handlers: HandlersOf<'deployments'>
  /** Counts the deployments of a project. */
  readonly count: (projectId: string) => Promise<number>
  readonly deploy: DeployJob
  readonly removeProject: RemoveProject
  /** Starts or adopts the apps that should run, and keeps them running. */
  start(): Promise<void>
}

export async function composeDeployments(
  composition: Composition,
  given: {
    readonly tenancy: Pick<Tenancy, 'planOf'>
    readonly traffic: Pick<Traffic, 'add'>
    readonly outbound: Outbound
  },
): Promise<DeploymentsFeature> {
  const gateway = await composeGateway(composition, given.traffic)
  const caches = composeCaches(composition)
  const services: DeploymentServices = {
    apps: composeApps(composition, gateway),
    runtimes: await composeRuntimes(composition, caches),
    logs: composeLogs(composition),
    sources: await composeSources(composition, caches, given.outbound),
  }
  const core = composeCore(composition, services, given.tenancy)
  const parts = composeJobParts(composition, services, core, gateway)
  const requests = composeRequests(composition, services, core, parts)
  return {
    ...requests,
    count: core.store.ofProjects.count,
    deploy: composeDeployJob(composition, services, core, parts, { gateway, caches }),
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
