import { openCgroups } from '../platform/cgroups.ts'
import type { Config } from '../platform/config.ts'
import type { DataDirectory } from '../platform/data-directory.ts'
import type { Caches } from '../platform/disk/caches.ts'
import type { Logger } from '../platform/logger.ts'
import { startPeriodic } from '../platform/periodic.ts'
import type { Confined } from '../platform/sandbox/confined.ts'
import type { ShutdownStack } from '../platform/shutdown.ts'
import { clusterUser, databasesUser, gatewayUser, gitUser, isRoot } from '../platform/state.ts'
import type { OsUser } from '../platform/users.ts'
import { configuredReach } from './network/reach.ts'
import { closeGroups, detectCapabilities, type HostCapabilities } from './process/confinement/capabilities.ts'
import { openMarks } from './process/marks.ts'
import { createProcessRuntime } from './process/process-runtime.ts'
import { createToolRunner, removeLeftGroups } from './process/tool-runner.ts'
import { type Programs, preparePrograms } from './process/toolchain/own-programs.ts'
import { thisMachine } from './process/toolchain/packages.ts'
import { createToolRegistry } from './process/toolchain/registry.ts'
import { createToolchains, type Toolchains } from './process/toolchain/toolchains.ts'
import type { Runtime } from './runtime.ts'
import { createRuntimes, type Runtimes } from './runtimes.ts'
import { type DockerParts, startDocker } from './start-docker.ts'

export type { HostCapabilities } from './process/confinement/capabilities.ts'

const minuteMs = 60_000

export interface RuntimesParts {
  readonly config: Pick<Config, 'appNetwork' | 'cgroups' | 'dataDirectory' | 'path' | 'uids'> & DockerParts['config']
  readonly directory: DataDirectory
  readonly stack: ShutdownStack
  readonly logger: Logger
  readonly caches: Caches
  /** Called right before the runtimes start, end or remove something; throws when another server leads. */
  readonly fence: () => void
  /** The user of the gateway; `null` where the gateway runs as the user of the server. */
  readonly siteReader: OsUser | null
  /** True while apps get so many requests that builds must leave a core to them. */
  readonly leavesCore: () => boolean
  /** Runtimes besides the configured runtimes; for tests. */
  readonly moreRuntimes: readonly Runtime[] | undefined
  /** Builds and runs new releases in place of the process runtime; for tests. */
  readonly preferredRuntime: Runtime | undefined
  /** Replaces the detected capabilities of the host; for tests. */
  readonly host: HostCapabilities | undefined
}

export interface StartedRuntimes {
  readonly runtimes: Runtimes
  readonly tools: Confined
  /** Lets apps reach a port that the gateway has opened for an app. */
  readonly publish: (port: number) => Promise<void>
}

/** Starts the runtimes that build and run releases: processes of this machine, and containers if configured. */
export async function startRuntimes(parts: RuntimesParts): Promise<StartedRuntimes> {
  const { config, directory, stack, logger, caches, fence, moreRuntimes = [], preferredRuntime } = parts
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
  const host = parts.host ?? (await detectHost(parts, programs))
  stack.defer('control groups', () => closeGroups(host))
  stack.defer('networks', async (scope) => (scope === 'all' ? host.networks?.close() : undefined))
  const runtime = createProcessRuntime({
    apps: { directory: directory.apps, maySetQuotas: isRoot() },
    users: { apps: uids, siteReader: parts.siteReader },
    programs: { ...programs, toolchains: toolchainsOf(config, programs, caches) },
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
  const docker = await startDocker({
    config,
    directory,
    stack,
    logger,
    caches,
    fence,
    sources: runtime.builder,
    findBuilt: runtime.findBuilt,
    networks: host.networks,
    yielding: host.yielding,
  })
  const others = [...(docker === null ? [] : [docker.runtime]), ...moreRuntimes]
  const all = preferredRuntime === undefined ? others : [runtime, ...others]
  return {
    runtimes: createRuntimes(preferredRuntime ?? runtime, all, docker?.packs ?? null),
    tools: await startTools(parts, host),
    async publish(port) {
      await host.networks?.publish(port)
      await docker?.publish(port)
    },
  }
}

async function detectHost(
  { config, directory, leavesCore, logger }: Pick<RuntimesParts, 'config' | 'directory' | 'leavesCore' | 'logger'>,
  programs: Programs,
): Promise<HostCapabilities> {
  return detectCapabilities({
    cgroups: config.cgroups,
    path: config.path,
    directory: directory.root,
    isRoot: isRoot(),
    programs: programs.paths,
    network:
      config.appNetwork === null
        ? null
        : { range: config.appNetwork, reach: await configuredReach(config), ports: config.deploys.releasePorts },
    leavesCore,
    logger,
  })
}

function toolchainsOf(
  { databases: { registryEnvironment: environment } }: Pick<Config, 'databases'>,
  { tools: directory, bin, own }: Programs,
  caches: Caches,
): Toolchains {
  const registry = createToolRegistry({ directory, environment })
  return createToolchains({ directory, bin, own, registry, caches, machine: thisMachine() })
}

/**
 * Starts the runner of git. Where the server is root, git has its own user. Its control groups are separate from the
 * groups of releases.
 */
async function startTools(
  { config, directory, stack, logger, fence }: RuntimesParts,
  { prlimit, sandbox, yielding }: HostCapabilities,
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
