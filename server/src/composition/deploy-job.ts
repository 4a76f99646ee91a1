import { planDirectory } from '../builds/plan-directory.ts'
import { createBuildStep } from '../deployments/job/build.ts'
import { createDeploy } from '../deployments/job/deploy.ts'
import { createDiskGuard } from '../deployments/job/disk.ts'
import { createFail } from '../deployments/job/fail.ts'
import { createFetchStep } from '../deployments/job/fetch.ts'
import { createHealthCheck } from '../deployments/job/health.ts'
import { createInstanceControl, createRemoveApp } from '../deployments/job/instances.ts'
import { createDeployJob, type DeployJob } from '../deployments/job/job.ts'
import { createLastLines } from '../deployments/job/log-lines.ts'
import { createMakeRelease, type MakeRelease } from '../deployments/job/make-release.ts'
import { createPrune } from '../deployments/job/prune.ts'
import { createRetire } from '../deployments/job/retire.ts'
import { createRoutes } from '../deployments/job/routes.ts'
import { createStartStep } from '../deployments/job/start.ts'
import { createSwitchStep, type SwitchStep } from '../deployments/job/switch-over.ts'
import { createTeardown } from '../deployments/job/teardown.ts'
import type { Gateway } from '../gateway/client.ts'
import type { Caches } from '../platform/disk/caches.ts'
import { createSlots } from '../platform/slots.ts'
import type { Composition } from './composition.ts'
import type { DeployJobParts, DeploymentCore, DeploymentServices } from './deployment-parts.ts'
import { listenerOf } from './gateway.ts'

/** Makes the parts of the deploy job that others use, too. */
export function composeJobParts(
  { config, state }: Composition,
  { apps: { apps, urlOf }, runtimes, logs }: DeploymentServices,
  { store, locks, appLock, announce }: DeploymentCore,
  gateway: Gateway,
): DeployJobParts {
  const { reserveBytes, drainMs } = config.deploys
  const instances = createInstanceControl({ runtimes, logs })
  const routes = createRoutes({ gateway, lock: appLock, drainMs })
  const lastLines = createLastLines(logs)
  return {
    instances,
    routes,
    disk: createDiskGuard({ directory: state.directory.root, reserveBytes }),
    lastLines,
    checkHealth: createHealthCheck({ instances, lastLines }),
    teardown: createTeardown({ store, locks, instances, routes }),
    removeApp: createRemoveApp({ runtimes, logs }),
    fail: createFail({ database: state.db, jobs: store.jobs, apps, announce, urlOf }),
  }
}

/** Makes the job that deploys. */
export function composeDeployJob(
  composition: Composition,
  services: DeploymentServices,
  core: DeploymentCore,
  parts: DeployJobParts,
  given: { readonly gateway: Gateway; readonly caches: Caches },
): DeployJob {
  const { config, logger } = composition
  const { apps } = services.apps
  const { store, locks, secrets, releaseOf } = core
  const { instances, routes, checkHealth, fail } = parts
  const deploy = createDeploy({
    apps,
    releaseOf,
    makeRelease: composeMakeRelease(composition, services, core, parts, given.caches),
    start: createStartStep({ instances, routes }),
    checkHealth,
    switchOver: composeSwitch(composition, services, core, parts, given.gateway),
    settings: config.deploys,
  })
  return createDeployJob({ store, locks, instances, secrets, deploy, fail, logger })
}

function composeMakeRelease(
  { config }: Composition,
  { runtimes, sources, logs }: DeploymentServices,
  { store, secrets, background }: DeploymentCore,
  { disk, lastLines }: DeployJobParts,
  caches: Caches,
): MakeRelease {
  return createMakeRelease({
    runtimes,
    fetch: createFetchStep({ sources, disk, secrets, jobs: store.jobs, settings: config.deploys }),
    plan: (directory) => planDirectory(directory, { nodeVersion: process.versions.node }),
    slots: createSlots(config.deploys.builds),
    build: createBuildStep({ logs, lastLines, disk, settings: config.deploys }),
    trimCaches: caches.trim,
    background,
  })
}

function composeSwitch(
  { config, state }: Composition,
  { apps: { urlOf }, logs }: DeploymentServices,
  { store, locks, appLock, announce, background }: DeploymentCore,
  { teardown }: DeployJobParts,
  gateway: Gateway,
): SwitchStep {
  const prune = createPrune({ store, logs, teardown })
  return createSwitchStep({
    gateway,
    lock: appLock,
    listenerOf: ({ address }) => listenerOf(config, address),
    database: state.db,
    store,
    announce,
    urlOf,
    retire: createRetire({ locks, teardown, prune, background }),
  })
}
