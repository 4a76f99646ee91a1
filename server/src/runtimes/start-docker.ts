import type { Yielding } from '../platform/cgroups.ts'
import type { Config } from '../platform/config.ts'
import { type DataDirectory, directoryId } from '../platform/data-directory.ts'
import type { Caches } from '../platform/disk/caches.ts'
import type { Logger } from '../platform/logger.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { systemEntries } from '../platform/sandbox/arguments.ts'
import type { ShutdownStack } from '../platform/shutdown.ts'
import { isRoot } from '../platform/state.ts'
import type { SystemSource } from './docker/base-images.ts'
import { engineCapabilities, findEngine } from './docker/capabilities.ts'
import { createEngine, type Engine } from './docker/client.ts'
import { createDockerRuntime } from './docker/docker-runtime.ts'
import { createImageBuilds, type ImageBuilds } from './docker/dockerfiles/image-builds.ts'
import { findParts } from './docker/dockerfiles/requirements.ts'
import { createPull, createUnfinishedPulls } from './docker/images.ts'
import { imageOf, labelsOf } from './docker/names.ts'
import { type HostNetwork, tryHostNetwork } from './docker/network/host-network.ts'
import { type ContainerNetworks, createContainerNetworks } from './docker/network/networks.ts'
import type { Packing } from './docker/pack.ts'
import { noteEngine } from './leftovers.ts'
import { configuredReach, type ReachConfig } from './network/reach.ts'
import { findNetworkTools } from './process/confinement/capabilities.ts'
import { placeOfBuilds } from './process/confinement/groups.ts'
import type { Networks } from './process/network/networks.ts'
import { pathsOf } from './process/release-folders.ts'
import type { Builder, Runtime } from './runtime.ts'
import type { FindBuilt, Runtimes } from './runtimes.ts'

/** How long the start of a server waits for an engine that also starts, for example after a reboot. */
const engineStartMs = 10_000

/** The time between attempts to remove leftovers of an earlier server from an engine that was unreachable. */
const cleanEveryMs = 60_000

/** The time limit for preparing the base of containers: a registry may never end its answer. */
const prepareMs = 3_600_000

export interface DockerParts {
  readonly config: Pick<Config, 'cgroups' | 'containerNetwork' | 'docker'> & ReachConfig
  readonly directory: DataDirectory
  readonly stack: ShutdownStack
  readonly logger: Logger
  readonly caches: Caches
  /** Called right before the runtime starts, ends or removes something; throws when another server leads. */
  readonly fence: () => void
  readonly sources: Builder
  readonly findBuilt: FindBuilt
  readonly networks: Networks | null
  readonly yielding: Yielding | null
}

/** The runtime of containers, and a function that lets containers reach a port of the gateway. */
export interface StartedDocker {
  readonly runtime: Runtime
  readonly packs: Runtimes['packs']
  readonly publish: (port: number) => Promise<void>
}

/**
 * Starts the runtime of containers if the configuration names an engine. The server also starts when the engine is
 * unreachable.
 */
export async function startDocker(parts: DockerParts): Promise<StartedDocker | null> {
  const { config, directory, stack, logger, fence, sources, findBuilt } = parts
  if (config.docker === null) return null
  const engine = createEngine(config.docker.socket)
  const server = await directoryId(directory.root)
  await noteEngine(directory, config.docker.socket)
  const capabilities = engineCapabilities(await findEngine(engine, engineStartMs))
  if (capabilities.warning !== null) logger.warn(capabilities.warning)
  logger.info(capabilities.details, 'isolation of containers')
  const networks = await openNetworks(parts, engine, server)
  stack.defer('networks of containers', async (scope) => (scope === 'all' ? networks.close() : undefined))
  const builds = await startImageBuilds(parts, engine, server)
  const unfinished = createUnfinishedPulls(engine, directory.pulls, fence)
  const pull = createPull({ engine, server, mostBytes: config.deploys.mostReleaseBytes, unfinished, fence })
  const { alone } = config.docker
  const { runtime, packing, clean, close } = createDockerRuntime({
    engine,
    server,
    capabilities,
    networks,
    builds,
    logger,
    fence,
    folders: directory,
    images: { pull, canBuild: builds.canBuild, build: builds.build },
    sources: {
      ...sources,
      built: alone && {
        source: systemOf(alone, directory.root),
        findBuilt,
        mostBytes: config.deploys.mostReleaseBytes,
      },
    },
  })
  stack.defer('output of containers', close)
  const cleaning = startPeriodic({
    name: 'cleaning the Docker engine',
    everyMs: cleanEveryMs,
    async work() {
      await clean()
      await unfinished.clean()
    },
    logger,
  })
  stack.defer('cleaning the Docker engine', () => cleaning.stop())
  if (packing !== null) prepareBase(parts, packing)
  return { runtime, packs: packing && { runtime, pack: packing.pack }, publish: networks.publish }
}

const systemOf = ({ base }: { readonly base: string | null }, dataDirectory: string): SystemSource =>
  base === null ? { entries: systemEntries, hidden: dataDirectory } : { reference: base }

/**
 * Imports the programs of the machine in the background: the import takes minutes, and the first deployment would wait.
 */
function prepareBase({ logger, stack }: Pick<DockerParts, 'logger' | 'stack'>, { prepare }: Packing): void {
  const stopped = new AbortController()
  const signal = AbortSignal.any([stopped.signal, AbortSignal.timeout(prepareMs)])
  const prepared = prepare({ say: async (line) => logger.info(line), signal }).catch((error: unknown) => {
    if (!stopped.signal.aborted)
      logger.warn({ err: error }, 'the base of containers could not be made; deployments try again')
  })
  stack.defer('the base of containers', async () => {
    stopped.abort(new Error('the server stops'))
    await prepared
  })
}

async function openNetworks(
  { config, directory, logger, networks, fence }: DockerParts,
  engine: Engine,
  server: string,
): Promise<ContainerNetworks> {
  const dataDirectory = directory.root
  const range = config.containerNetwork
  const tools = isRoot() ? await findNetworkTools() : null
  const found: HostNetwork | string =
    tools === null
      ? 'the server is not root, or iproute2, nftables or util-linux is missing'
      : await tryHostNetwork({
          tools,
          dataDirectory,
          range,
          programs: directory.runtime,
          reach: await configuredReach(config),
        })
  if (typeof found === 'string') {
    logger.warn(
      `Containers reach the services and the private network of this machine: ${found}. Run trusted ones alone.`,
    )
  }
  return createContainerNetworks({
    engine,
    server,
    dataDirectory,
    range,
    host: typeof found === 'string' ? null : found,
    neighbours: networks?.neighbours ?? null,
    fence,
  })
}

/**
 * Starts the builder of Dockerfiles. Builds use the source folders and the network access of the process runtime.
 *
 * @param server the id of the data directory, which labels images
 */
async function startImageBuilds(
  { config, directory, stack, caches, fence, networks, yielding }: DockerParts,
  engine: Engine,
  server: string,
): Promise<ImageBuilds> {
  const { environment, baseImages: bases, buildMemoryBytes, mostEachCacheBytes } = config.deploys
  const found = await findParts({
    isRoot: isRoot(),
    networks,
    hierarchy: (await placeOfBuilds(config.cgroups))?.hierarchy ?? null,
    yielding,
    environment,
    fence,
  })
  if (found.ok) {
    fence()
    // A killed leader leaves its groups behind.
    await found.parts.groups.sweep()
  }
  const builds = createImageBuilds({
    folder: directory.imageBuilds,
    found,
    engine,
    environment,
    bases,
    caches,
    imageOf: (release) => ({ name: imageOf(server, release), labels: labelsOf(server, release) }),
    sourceOf: (release) => pathsOf(directory.apps, release).source,
    limits: { memoryBytes: buildMemoryBytes, cacheBytes: mostEachCacheBytes },
  })
  stack.defer('control groups of builds', () => builds.close())
  return builds
}
