import { chooseOutput } from '../builds/choose-output.ts'
import { createPlanApart } from '../builds/planner.ts'
import { type BuildStep, createBuildStep } from '../deployments/build.ts'
import { createDeploy, createStartStep } from '../deployments/deploy.ts'
import { createDeployJob, type DeployJob } from '../deployments/deploy-job.ts'
import { createDiskGuard } from '../deployments/disk-guard.ts'
import { createFetchStep } from '../deployments/fetch.ts'
import { createGitAccess } from '../deployments/git-credentials.ts'
import { createHealthCheck } from '../deployments/health.ts'
import { createInstanceControl, createRemoveApp } from '../deployments/instances.ts'
import {
  createMake,
  createMakeRelease,
  createPromote,
  createPullImage,
  createRegistryReach,
  type MakeRelease,
  type PullImage,
} from '../deployments/make.ts'
import { createFail } from '../deployments/outcome.ts'
import { desiredProcesses } from '../deployments/process-types.ts'
import { createCredentialsFor } from '../deployments/registries.ts'
import { createLastLines, createNoteInLog } from '../deployments/release-log.ts'
import { createDraining, createReplicaControl, createStartReplicas } from '../deployments/replicas.ts'
import { createRoutes } from '../deployments/routes.ts'
import { createPrune, createRetire, createSwitchStep, type SwitchStep } from '../deployments/switch.ts'
import { createTeardown } from '../deployments/teardown.ts'
import { createSourceFiles } from '../deployments/uploads.ts'
import { imageVolumesOf } from '../deployments/volumes.ts'
import type { Gateway } from '../gateway/client.ts'
import { listenerOf } from '../gateway/listener.ts'
import type { Caches } from '../platform/disk/caches.ts'
import { createSlots, type Slots } from '../platform/slots.ts'
import type { Runs } from '../runs/index.ts'
import type { Composition } from './composition.ts'
import type { DeployJobParts, DeploymentCore, DeploymentServices } from './deployment-parts.ts'

/** Creates the parts that the deploy job shares with the reconciler. */
export function composeJobParts(
  { config, state }: Composition,
  { apps: { apps, urlOf }, runtimes, logs }: DeploymentServices,
  { store, locks, appLock, announce, background }: DeploymentCore,
  gateway: Gateway,
): DeployJobParts {
  const { reserveBytes, drainMs } = config.deploys
  const instances = createInstanceControl({ runtimes, logs })
  const routes = createRoutes({ gateway, lock: appLock, drainMs })
  const lastLines = createLastLines(logs)
  const checkHealth = createHealthCheck({ instances, gateway, lastLines, note: createNoteInLog(logs) })
  const draining = createDraining(
    (upstream, signal) => gateway.drain(upstream, { timeoutMs: drainMs, signal }),
    (work) => background.add(work, { what: 'ending an instance' }),
  )
  return {
    instances,
    routes,
    disk: createDiskGuard({ directory: state.directory.root, reserveBytes }),
    lastLines,
    checkHealth,
    replicas: createReplicaControl({
      rows: store.instances,
      instances,
      checkHealth,
      draining,
      settings: config.deploys,
    }),
    teardown: createTeardown({ store, locks, instances, routes }),
    removeApp: createRemoveApp({ runtimes, logs }),
    fail: createFail({ database: state.db, jobs: store.jobs, ofProjects: store.ofProjects, apps, announce, urlOf }),
  }
}

export function composeDeployJob(
  composition: Composition,
  services: DeploymentServices,
  core: DeploymentCore,
  parts: DeployJobParts,
  given: { readonly gateway: Gateway; readonly caches: Caches; readonly applyFile: Runs['applyFile'] },
): DeployJob {
  const { config, logger } = composition
  const { apps } = services.apps
  const { store, locks, secrets, releaseOf, mostInstances, background } = core
  const { instances, routes, checkHealth, replicas, disk, fail } = parts
  const slots = createSlots<string>(config.deploys.builds)
  const build = composeBuild(composition, services, core, { ...parts, slots })
  const note = createNoteInLog(services.logs)
  const settings = config.deploys
  const promote = { runtimes: services.runtimes, rows: store.rows, locks, disk, build, note, slots, settings }
  const deploy = createDeploy({
    apps,
    store,
    releaseOf,
    make: createMake({
      promote: createPromote(promote),
      pullImage: composePullImage(composition, services, core, parts),
      ofSources: composeMakeRelease(composition, services, core, parts, build),
    }),
    start: createStartStep({ instances, routes }),
    checkHealth,
    startReplicas: createStartReplicas({
      replicas,
      rowsOf: store.instances.of,
      mostInstances,
      processesOf: async (row, plan) => desiredProcesses(plan, await store.scales.of(composition.state.db, row.app_id)),
    }),
    switchOver: composeSwitch(composition, services, core, parts, given),
    afterMaking: ({ id }) => background.add(given.caches.trim(), { deployment: id, what: 'trimming caches' }),
    settings: config.deploys,
  })
  return createDeployJob({ store, locks, instances, secrets, deploy, fail, logger })
}

function composeBuild(
  { config, state, secrets: secretBox }: Composition,
  { logs }: DeploymentServices,
  { store }: DeploymentCore,
  { disk, lastLines, slots }: DeployJobParts & { readonly slots: Slots<string> },
): BuildStep {
  return createBuildStep({
    logs,
    slots,
    jobs: store.jobs,
    lastLines,
    disk,
    credentialsFor: createCredentialsFor({ database: state.db, secretBox }),
    settings: config.deploys,
  })
}

function composeMakeRelease(
  { config, state, secrets: secretBox, buildPlans = createPlanApart() }: Composition,
  { logs, runtimes, sources, rights }: DeploymentServices,
  { store, secrets }: DeploymentCore,
  { disk }: DeployJobParts,
  build: BuildStep,
): MakeRelease {
  return createMakeRelease({
    runtimes,
    jobs: store.jobs,
    rows: store.rows,
    fetch: createFetchStep({
      sources,
      packOf: createSourceFiles({ directory: state.directory.sources }).pathOf,
      rights,
      disk,
      secrets,
      accessOf: createGitAccess({ database: state.db, secretBox, secrets }),
      jobs: store.jobs,
      note: createNoteInLog(logs),
      settings: config.deploys,
    }),
    plans: buildPlans,
    chooseOutput,
    build,
  })
}

function composePullImage(
  { config, state, secrets: secretBox }: Composition,
  { runtimes, logs, outbound }: DeploymentServices,
  { store }: DeploymentCore,
  { disk }: DeployJobParts,
): PullImage {
  return createPullImage({
    runtimes,
    logs,
    credentialsFor: createCredentialsFor({ database: state.db, secretBox }),
    assertReachable: createRegistryReach(outbound),
    volumesOf: (appId) => imageVolumesOf(state.db, appId),
    jobs: store.jobs,
    disk,
    settings: config.deploys,
  })
}

function composeSwitch(
  { config, state }: Composition,
  { apps: { urlOf }, logs }: DeploymentServices,
  { store, locks, appLock, announce, background, waker }: DeploymentCore,
  { teardown }: DeployJobParts,
  { gateway, applyFile }: { readonly gateway: Gateway; readonly applyFile: Runs['applyFile'] },
): SwitchStep {
  const prune = createPrune({ store, logs, teardown })
  const retire = createRetire({ locks, teardown, prune, background })
  return createSwitchStep({
    gateway,
    lock: appLock,
    listenerOf: ({ address }) => listenerOf(config, address),
    database: state.db,
    store,
    announce,
    urlOf,
    onServing: applyFile,
    retire(...replaced) {
      retire(...replaced)
      // The reconciler starts the other process types of the release.
      waker.wake()
    },
  })
}
