import type { Yielding } from '../../platform/cgroups.ts'
import { directoryId } from '../../platform/data-directory.ts'
import type { Caches } from '../../platform/disk/caches.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import { systemEntries } from '../../platform/sandbox/arguments.ts'
import { isRoot } from '../../platform/state.ts'
import type { SystemSource } from '../../runtimes/docker/base-images.ts'
import { engineCapabilities, findEngine } from '../../runtimes/docker/capabilities.ts'
import { createEngine, type Engine } from '../../runtimes/docker/client.ts'
import { createDockerRuntime } from '../../runtimes/docker/docker-runtime.ts'
import { createPull, createUnfinishedPulls } from '../../runtimes/docker/images.ts'
import { type HostNetwork, tryHostNetwork } from '../../runtimes/docker/network/host-network.ts'
import { type ContainerNetworks, createContainerNetworks } from '../../runtimes/docker/network/networks.ts'
import type { Packing } from '../../runtimes/docker/pack.ts'
import { noteEngine } from '../../runtimes/leftovers.ts'
import type { Neighbours } from '../../runtimes/network/neighbours.ts'
import { configuredReach } from '../../runtimes/network/reach.ts'
import { findNetworkTools } from '../../runtimes/process/confinement/capabilities.ts'
import type { Networks } from '../../runtimes/process/network/networks.ts'
import type { Builder, Runtime } from '../../runtimes/runtime.ts'
import type { FindBuilt, Runtimes } from '../../runtimes/runtimes.ts'
import type { Composition } from '../composition.ts'
import { composeImageBuilds } from './image-builds.ts'

/** How long the start of a server waits for an engine that also starts, for example after a reboot. */
const engineStartMs = 10_000

/** The time between attempts to remove leftovers of an earlier server from an engine that was unreachable. */
const cleanEveryMs = 60_000

/** The time limit for preparing the base of containers: a registry may never end its answer. */
const prepareMs = 3_600_000

/** The runtime of containers, and a function that lets containers reach a port of the gateway. */
export interface DockerParts {
  readonly runtime: Runtime
  readonly packs: Runtimes['packs']
  readonly publish: (port: number) => Promise<void>
}

/**
 * Creates the runtime of containers if the configuration names an engine. The server also starts when the engine is
 * unreachable.
 *
 * @param processes.sources keeps the sources of Dockerfiles
 * @param processes.networks null where the machine has none
 * @param processes.yielding the place for the control groups of builds; null where control groups are impossible
 */
export async function composeDocker(
  composition: Composition,
  processes: {
    readonly sources: Builder
    readonly networks: Networks | null
    readonly yielding: Yielding | null
    readonly findBuilt: FindBuilt
  },
  caches: Caches,
  fence: () => void,
): Promise<DockerParts | null> {
  const { config, logger, state, stack } = composition
  if (config.docker === null) return null
  const engine = createEngine(config.docker.socket)
  const server = await directoryId(state.directory.root)
  await noteEngine(state.directory, config.docker.socket)
  const capabilities = engineCapabilities(await findEngine(engine, engineStartMs))
  if (capabilities.warning !== null) logger.warn(capabilities.warning)
  logger.info(capabilities.details, 'isolation of containers')
  const neighbours = processes.networks?.neighbours ?? null
  const networks = await composeNetworks(composition, { engine, server, neighbours }, fence)
  stack.defer('networks of containers', async (scope) => (scope === 'all' ? networks.close() : undefined))
  const { networks: buildNetworks, yielding } = processes
  const place = { engine, server, networks: buildNetworks, yielding }
  const builds = await composeImageBuilds(composition, place, caches, fence)
  const unfinished = createUnfinishedPulls(engine, state.directory.pulls, fence)
  const pull = createPull({ engine, server, mostBytes: config.deploys.mostReleaseBytes, unfinished, fence })
  const { alone } = config.docker
  const built = alone && {
    source: systemOf(alone, state.directory.root),
    findBuilt: processes.findBuilt,
    mostBytes: config.deploys.mostReleaseBytes,
  }
  const { runtime, packing, clean, close } = createDockerRuntime({
    ...{ engine, server, capabilities, networks, builds, logger, fence },
    folders: state.directory,
    images: { pull, canBuild: builds.canBuild, build: builds.build },
    sources: { ...processes.sources, built },
  })
  stack.defer('output of containers', close)
  const cleaning = startPeriodic({
    ...{ name: 'cleaning the Docker engine', everyMs: cleanEveryMs, logger },
    async work() {
      await clean()
      await unfinished.clean()
    },
  })
  stack.defer('cleaning the Docker engine', () => cleaning.stop())
  if (packing !== null) prepareBase(composition, packing)
  return { runtime, packs: packing && { runtime, pack: packing.pack }, publish: networks.publish }
}

const systemOf = ({ base }: { readonly base: string | null }, dataDirectory: string): SystemSource =>
  base === null ? { entries: systemEntries, hidden: dataDirectory } : { reference: base }

/**
 * Imports the programs of the machine in the background: the import takes minutes, and the first deployment would wait.
 */
function prepareBase({ logger, stack }: Pick<Composition, 'logger' | 'stack'>, { prepare }: Packing): void {
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

async function composeNetworks(
  { config, logger, state }: Composition,
  {
    engine,
    server,
    neighbours,
  }: { readonly engine: Engine; readonly server: string; readonly neighbours: Neighbours | null },
  fence: () => void,
): Promise<ContainerNetworks> {
  const dataDirectory = state.directory.root
  const range = config.containerNetwork
  const tools = isRoot() ? await findNetworkTools() : null
  const found: HostNetwork | string =
    tools === null
      ? 'the server is not root, or iproute2, nftables or util-linux is missing'
      : await tryHostNetwork({
          ...{ tools, dataDirectory, range },
          programs: state.directory.runtime,
          reach: await configuredReach(config),
        })
  if (typeof found === 'string') {
    logger.warn(
      `Containers reach the services and the private network of this machine: ${found}. Run trusted ones alone.`,
    )
  }
  const host = typeof found === 'string' ? null : found
  return createContainerNetworks({ ...{ engine, server, dataDirectory, range, host, neighbours, fence } })
}
