import { dirname } from 'node:path'
import type { Logger } from '../../platform/logger.ts'
import type { Builder, Capabilities, Images, Runtime } from '../runtime.ts'
import { createBuilder } from './builder.ts'
import { type Containers, createContainers } from './calls/containers.ts'
import { createWaiters } from './calls/waiters.ts'
import { createFreeOfEngine } from './capabilities.ts'
import { endContainer } from './containers/end.ts'
import { createExitWatch } from './containers/exit-watch.ts'
import { runtimeName } from './containers/handle.ts'
import { createEndLost } from './containers/lost.ts'
import { networked } from './containers/networked.ts'
import { createOwnCheck, failureOf } from './containers/own-check.ts'
import { createVolumes } from './containers/volumes.ts'
import type { Engine } from './engine/engine.ts'
import { createInstances } from './instances.ts'
import type { ContainerNetworks } from './network/networks.ts'
import { createOutputs } from './output/outputs.ts'
import { createBases } from './packing/bases.ts'
import { createPacking, type Packing, type PackParts } from './packing/pack.ts'
import { createReleaseStore, imagesOfReleases, type KeptBuilds } from './releases.ts'

export interface DockerRuntimeOptions {
  readonly engine: Engine
  /** The id of the data directory, which labels everything that is made. */
  readonly server: string
  readonly folders: {
    /** For what is known of containers. */
    readonly containers: string
    /** The folder of all apps in the data directory, which has their volumes. */
    readonly apps: string
  }
  readonly capabilities: Capabilities
  readonly networks: ContainerNetworks
  readonly images: Images | null
  /** The layers and caches that builds of Dockerfiles keep; null where there are none. */
  readonly builds: KeptBuilds | null
  /** Keeps the sources of images, in folders. */
  readonly sources: Pick<Builder, 'prepare' | 'seal' | 'isBuilding'> & {
    /** Finds what it has built of sources; null where that runs in another runtime. */
    readonly built: Pick<PackParts, 'source' | 'findBuilt' | 'mostBytes'> | null
  }
  readonly logger: Pick<Logger, 'info' | 'warn'>
  /** Called right before something is started, ended or removed. Throws when this server must not do that any more. */
  readonly fence: () => void
}

export interface DockerRuntime {
  readonly runtime: Runtime
  readonly packing: Packing | null
  /**
   * Removes what a server or an engine that was killed has left: commands that nobody waits for, processes of containers that the engine
   * has lost, networks without containers, and records of containers that are gone. May be repeated, a minute later.
   */
  clean(): Promise<void>
  /** Reads no output and no events any more. Containers run on. */
  close(): Promise<void>
}

/** An unhealthy container has this long to end by itself. */
const unhealthyGraceMs = 10_000

/** Runs releases as containers of a Docker engine, which outlive the server. */
export function createDockerRuntime(options: DockerRuntimeOptions): DockerRuntime {
  const { engine, server, folders, capabilities, networks, images, builds, sources, logger, fence } = options
  const containers = networked(createContainers(engine, server, fence), networks)
  const outputs = createOutputs({ engine, containers, directory: folders.containers, fence, logger })
  const waiters = createWaiters(containers)
  const freeElsewhere = createFreeOfEngine(engine, dirname(folders.containers))
  const ending = new Set<string>()
  const onUnhealthy = (container: string): void => {
    if (ending.has(container)) return
    ending.add(container)
    endUnhealthy(containers, outputs, container)
      .catch((error: unknown) => logger.warn({ err: error, container }, 'an unhealthy container could not be ended'))
      .finally(() => ending.delete(container))
  }
  const { written } = outputs
  const ownCheck = createOwnCheck(engine, fence)
  const endLost = createEndLost({ containers, entry: networks.entry, fence })
  const exits = createExitWatch({
    ...{ engine, containers, server, onUnhealthy, logger },
    written: async (container) => void (await written(container)),
  })
  const bases = createBases(engine, server, fence)
  const volumes = createVolumes({ engine, containers, server, waiters, apps: folders.apps, fence })
  const { halt, ...instances } = createInstances({
    ...{ server, waiters, engine, containers, networks, outputs, volumes, exits, ownCheck, logger },
  })
  return {
    runtime: {
      name: runtimeName,
      capabilities,
      builder: createBuilder({ server, engine, containers, networks, sources, builds, fence }),
      instances,
      releases: createReleaseStore({
        ...{ server, engine, containers, builds, bases, halt, freeElsewhere, fence },
        apps: folders.apps,
      }),
      images,
    },
    packing:
      sources.built === null
        ? null
        : createPacking({
            ...{ engine, server, containers, waiters, bases, fence, ...sources.built },
            images: () => imagesOfReleases(engine, server),
          }),
    async clean() {
      await waiters.removeLeft()
      await endLost()
      await networks.sweep()
      await outputs.keepOnly(async () => new Set((await containers.list({})).map(({ Id }) => Id)))
    },
    async close() {
      exits.close()
      await outputs.close()
    },
  }
}

/** The reconciler starts it again, as one that has crashed. */
async function endUnhealthy(
  containers: Pick<Containers, 'inspect' | 'signal' | 'ended'>,
  outputs: Pick<ReturnType<typeof createOutputs>, 'note'>,
  container: string,
): Promise<void> {
  const { Health } = (await containers.inspect(container))?.State ?? {}
  if (Health != null) await outputs.note(container, `Fairlead ends this instance: ${failureOf(Health)}`)
  await endContainer(containers, container, { graceMs: unhealthyGraceMs })
}
