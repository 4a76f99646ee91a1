import { join } from 'node:path'
import { publicUrl } from '../deployments/addresses.ts'
import { type App, createApps } from '../deployments/apps.ts'
import { createBuildSlots } from '../deployments/build-slots.ts'
import { cacheFolders, createCaches } from '../deployments/caches.ts'
import { createDisk } from '../deployments/disk.ts'
import { createDiskWatch } from '../deployments/disk-watch.ts'
import { createGit } from '../deployments/git.ts'
import { createGitCache } from '../deployments/git-cache.ts'
import { createListening } from '../deployments/listening.ts'
import type { DeployParts } from '../deployments/parts.ts'
import type { Keeper } from '../deployments/reconcile.ts'
import { createReleases } from '../deployments/releases.ts'
import { createConfinement } from '../deployments/runner/confinement.ts'
import type { Limits } from '../deployments/runner/limits.ts'
import { describeMeans, findMeans } from '../deployments/runner/means.ts'
import { createProcessRunner } from '../deployments/runner/process-runner.ts'
import { enterProgram, preparePrograms } from '../deployments/runner/programs.ts'
import type { Traffic } from '../deployments/traffic.ts'
import { createWork } from '../deployments/work.ts'
import { createGateway } from '../gateway/gateway.ts'
import { createBackground } from '../platform/background.ts'
import type { Config } from '../platform/config.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import { startPeriodic } from '../platform/periodic.ts'
import type { ShutdownStack } from '../platform/startup/shutdown.ts'
import { isRoot } from '../platform/startup/state.ts'

import { type Composition, finishTimeoutMs, proxyRule } from './composition.ts'
import { listenError } from './listen.ts'

const countTrafficEveryMs = 2_000

export async function deployParts(
  composition: Composition,
  {
    limitsOf,
    traffic,
    ...given
  }: Pick<DeployParts, 'store' | 'outbound' | 'announce'> & {
    limitsOf: (projectId: string) => Promise<Limits>
    traffic: Traffic
  },
): Promise<DeployParts> {
  const { config, logger, state, secrets, stack } = composition
  const { directory } = state
  // The first and the last belong to PostgreSQL.
  const appUids = isRoot() ? { from: config.uids.from, to: config.uids.to - 1 } : null
  const programs = await preparePrograms({
    runtime: directory.runtime,
    bin: directory.bin,
    user: appUids === null ? null : { uid: appUids.from + 1, gid: appUids.from + 1 },
  })
  const gateway = createGateway({
    logger,
    host: config.host,
    apps:
      config.apps.mode === 'ports'
        ? { mode: 'ports' }
        : { mode: 'hostnames', port: config.apps.gatewayPort, scheme: config.apps.scheme },
    isTrustedProxy: proxyRule(config),
  })
  const countTraffic = () => traffic.add(gateway.takeTraffic())
  const counting = startPeriodic({
    name: 'counting the traffic',
    everyMs: countTrafficEveryMs,
    work: countTraffic,
    logger,
  })
  // After the gateway, so that the requests that it still finishes are counted.
  stack.defer('traffic', async () => {
    await counting.stop()
    await countTraffic()
  })
  stack.defer('gateway', () => gateway.stop({ timeoutMs: finishTimeoutMs }))
  try {
    await gateway.listen()
  } catch (error) {
    throw listenError(error as NodeJS.ErrnoException, config.host, gatewayPort(config), 'FAIRLEAD_GATEWAY_PORT')
  }
  const means = await findMeans({
    cgroups: config.cgroups,
    path: config.path,
    directory: directory.root,
    isRoot: isRoot(),
    programs: programs.paths,
  })
  stack.defer('control groups', async () => means.cgroups?.close())
  const confinement = createConfinement(means)
  if (confinement.warning !== null) logger.warn(confinement.warning)
  logger.info(describeMeans(means), 'what holds builds and apps')
  const gitCaches = join(directory.git, 'caches')
  const caches = createCaches({
    mostEachBytes: config.deploys.mostEachCacheBytes,
    mostAllBytes: config.deploys.mostAllCachesBytes,
    list: () => cacheFolders({ git: gitCaches, apps: directory.apps }),
  })
  const background = createBackground({ logger })
  stack.defer('background work', () => background.settle(config.deploys.drainMs + finishTimeoutMs))

  return {
    ...given,
    database: state.db,
    apps: createApps({ database: state.db, gateway, config: config.apps }),
    releases: createReleases({
      directory: directory.apps,
      logDirectory: directory.logs,
      uids: appUids,
      limitsOf,
      secrets,
    }),
    runner: createProcessRunner({
      node: programs.node,
      bin: programs.bin,
      buildEnvironment: config.deploys.environment,
      ports: config.deploys.releasePorts,
      confinement,
      enter: enterProgram,
      logger,
    }),
    gateway,
    disk: createDisk({ directory: directory.root, reserveBytes: config.deploys.reserveBytes }),
    listening: createListening({ gateway, logger }),
    gitCache: createGitCache({ directory: gitCaches, caches }),
    caches,
    git: await createGit({
      directory: directory.git,
      path: config.path,
      allowFile: config.localMode,
      useOwnSshKeys: config.localMode,
      environment: config.deploys.environment,
    }),
    work: createWork(),
    appLock: createKeyedLock(),
    background,
    buildSlots: createBuildSlots(config.deploys.builds),
    settings: config.deploys,
    planOptions: { nodeVersion: process.versions.node },
    allowFile: config.localMode,
    listenerOf: (app: App) => ({
      host: reachableHost(config.host),
      port: 'port' in app.address ? app.address.port : gatewayPort(config),
    }),
    urlOf: (app) => publicUrl(app.address, config.apps),
    logger,
  }
}

export async function keepApps(keeper: Keeper, parts: DeployParts, stack: ShutdownStack): Promise<void> {
  await keeper.begin()
  const watching = new AbortController()
  const watches = [keeper.watch(watching.signal), createDiskWatch(parts).watch(watching.signal)]
  stack.defer('apps', async () => {
    watching.abort()
    await Promise.all(watches)
    await keeper.stopAll()
  })
  parts.logger.debug('apps are looked after')
}

/** Of apps that are told apart by their host names. */
function gatewayPort(config: Config): number {
  return config.apps.mode === 'hostnames' ? config.apps.gatewayPort : 0
}

/** An address that leads to a listener on `host` from this machine. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}
