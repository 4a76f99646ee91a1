import type { RuntimeNames } from '../deployments/create.ts'
import { createLogStore, type LogStore } from '../logs/log-store.ts'
import { openCgroups } from '../platform/cgroups.ts'
import type { Caches } from '../platform/disk/caches.ts'
import { startPeriodic } from '../platform/periodic.ts'
import type { Confined } from '../platform/sandbox/confined.ts'
import { clusterUser, databasesUser, gatewayUser, gitUser, isRoot } from '../platform/state.ts'
import type { OsUser } from '../platform/users.ts'
import { runtimeName as dockerName } from '../runtimes/docker/start.ts'
import { configuredReach } from '../runtimes/network/reach.ts'
import { closeGroups, detectCapabilities, type HostCapabilities } from '../runtimes/process/confinement/capabilities.ts'
import { runtimeName } from '../runtimes/process/handle.ts'
import { openMarks } from '../runtimes/process/marks.ts'
import { createProcessRuntime } from '../runtimes/process/process-runtime.ts'
import { createToolRunner, removeLeftGroups } from '../runtimes/process/tool-runner.ts'
import { type Programs, preparePrograms } from '../runtimes/process/toolchain/own-programs.ts'
import { thisMachine } from '../runtimes/process/toolchain/packages.ts'
import { createToolRegistry } from '../runtimes/process/toolchain/registry.ts'
import { createToolchains, type Toolchains } from '../runtimes/process/toolchain/toolchains.ts'
import { createRuntimes, type Runtimes } from '../runtimes/runtimes.ts'
import type { Composition } from './composition.ts'
import { composeDocker } from './leading/docker.ts'

/** Returns the names of the runtimes of a server. Requests need them, too, not only the leader. */
export const runtimeNames = ({
  config,
  moreRuntimes = [],
  preferredRuntime,
}: Pick<Composition, 'config' | 'moreRuntimes' | 'preferredRuntime'>): RuntimeNames => ({
  preferred: preferredRuntime?.name ?? runtimeName,
  images: config.docker !== null ? dockerName : (moreRuntimes.find(({ images }) => images !== null)?.name ?? null),
})

/** The runtimes that build and run releases, and the runner of tools such as git. */
export interface RuntimeParts {
  readonly runtimes: Runtimes
  readonly tools: Confined
  /** Lets apps reach a port that the gateway has opened for an app. */
  readonly publish: (port: number) => Promise<void>
}

/**
 * Creates the runtimes that build and run releases.
 *
 * @param fence called right before the runtimes start, end or remove something; throws when another server leads
 * @param more.siteReader the user of the gateway; `null` where the gateway runs as the user of the server
 * @param more.leavesCore true while apps get so many requests that builds must leave a core to them
 */
export async function composeRuntimes(
  composition: Composition,
  caches: Caches,
  fence: () => void,
  more: { readonly siteReader: OsUser | null; readonly leavesCore: () => boolean },
): Promise<RuntimeParts> {
  const { config, logger, state, stack, moreRuntimes = [], preferredRuntime } = composition
  const { directory } = state
  const own = [clusterUser(config), databasesUser(config), gitUser(config), gatewayUser(config)]
  const users = own.flatMap((user) => user?.uid ?? [])
  // PostgreSQL uses the first and the last uid, unless the range has changed since the first start.
  const uids = isRoot() ? { ...config.uids, reserved: [...users, config.uids.from, config.uids.to] } : null
  const programs = await preparePrograms({
    runtime: directory.runtime,
    bin: directory.bin,
    tools: directory.tools,
    user: uids === null ? null : { uid: uids.from + 1, gid: uids.from + 1 },
  })
  const host =
    composition.host ??
    (await detectCapabilities({
      cgroups: config.cgroups,
      path: config.path,
      directory: directory.root,
      isRoot: isRoot(),
      programs: programs.paths,
      network:
        config.appNetwork === null
          ? null
          : { range: config.appNetwork, reach: await configuredReach(config), ports: config.deploys.releasePorts },
      leavesCore: more.leavesCore,
      logger,
    }))
  stack.defer('control groups', () => closeGroups(host))
  stack.defer('networks', async (scope) => (scope === 'all' ? host.networks?.close() : undefined))
  const runtime = createProcessRuntime({
    apps: { directory: directory.apps, maySetQuotas: isRoot() },
    users: { apps: uids, siteReader: more.siteReader },
    programs: { ...programs, toolchains: composeToolchains(config, programs, caches) },
    builds: { environment: config.deploys.environment, memoryBytes: config.deploys.buildMemoryBytes },
    ports: config.deploys.releasePorts,
    host,
    caches,
    marks: await openMarks(directory.processMarks),
    logger,
    fence,
  })
  const { warning, details } = runtime.capabilities
  if (warning !== null) logger.warn(warning)
  logger.info(details, 'isolation of builds and apps')
  const processes = {
    sources: runtime.builder,
    networks: host.networks,
    yielding: host.yielding,
    findBuilt: runtime.findBuilt,
  }
  const docker = await composeDocker(composition, processes, caches, fence)
  const others = [...(docker === null ? [] : [docker.runtime]), ...moreRuntimes]
  const all = preferredRuntime === undefined ? others : [runtime, ...others]
  return {
    runtimes: createRuntimes(preferredRuntime ?? runtime, all, docker?.packs ?? null),
    tools: await composeTools(composition, host, fence),
    async publish(port) {
      await host.networks?.publish(port)
      await docker?.publish(port)
    },
  }
}

/** Creates the toolchains, which fetch the programs that apps request from the registry of builds. */
function composeToolchains(
  { databases: { registryEnvironment: environment } }: Composition['config'],
  { tools: directory, bin, own }: Programs,
  caches: Caches,
): Toolchains {
  const registry = createToolRegistry({ directory, environment })
  return createToolchains({ directory, bin, own, registry, caches, machine: thisMachine() })
}

const minuteMs = 60_000

/**
 * Creates the runner of git. Where the server is root, git has its own user. Its control groups are separate from the
 * groups of releases.
 */
async function composeTools(
  { config, state: { directory }, stack, logger }: Pick<Composition, 'config' | 'state' | 'stack' | 'logger'>,
  { prlimit, sandbox, yielding }: HostCapabilities,
  fence: () => void,
): Promise<Confined> {
  const cgroups = await openCgroups(yielding?.hierarchy ?? null, 'tools', yielding)
  stack.defer('control groups of tools', async () => cgroups?.close())
  // A killed leader leaves its groups behind.
  const found = cgroups === null ? [] : (await cgroups.names()).map((name) => ({ groups: cgroups, name }))
  let left = await removeLeftGroups(found, fence, logger)
  if (left.length > 0) {
    const removal = startPeriodic({
      name: 'removal of the groups of an earlier leader',
      everyMs: minuteMs,
      work: async () => {
        left = await removeLeftGroups(left, fence, logger)
      },
      logger,
    })
    stack.defer('groups of an earlier leader', () => removal.stop())
  }
  const user = gitUser(config)
  return createToolRunner({ cgroups, prlimit, sandbox, user, dataDirectory: directory.root, path: config.path, fence })
}

export function composeLogs({ state }: Pick<Composition, 'state'>): LogStore {
  return createLogStore({ directory: state.directory.logs })
}
