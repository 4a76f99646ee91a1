import type { FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Builder, Capabilities, Images, Release, Runtime } from '../runtime.ts'
import { type AttachParts, runInContainer } from './attach.ts'
import { createBases } from './base-images.ts'
import { type Containers, createContainers, createWaiters } from './calls.ts'
import { createFreeOfEngine } from './capabilities.ts'
import type { Engine } from './client.ts'
import { createEndLost, createExitWatch, endContainer } from './end.ts'
import { nameImage } from './images.ts'
import { createInstances, networked } from './instances.ts'
import { imageOf, unitLabel } from './names.ts'
import type { ContainerNetworks } from './network/networks.ts'
import { createOwnCheck, failureOf } from './observe.ts'
import { createOutputs } from './output.ts'
import { createPacking, type Packing, type PackParts } from './pack.ts'
import { createReleaseStore, imagesOfReleases, type KeptBuilds } from './releases.ts'
import { runtimeName } from './start.ts'
import { createVolumes } from './volumes.ts'

export interface DockerRuntimeOptions {
  readonly engine: Engine
  /** The id of the data directory labels everything that the runtime makes. */
  readonly server: string
  readonly folders: {
    readonly containers: string
    readonly apps: string
  }
  readonly capabilities: Capabilities
  readonly networks: ContainerNetworks
  readonly images: Images | null
  readonly builds: KeptBuilds | null
  readonly sources: Pick<Builder, 'prepare' | 'seal' | 'isBuilding'> & {
    /** Finds the build results of sources; null when they run in another runtime. */
    readonly built: Pick<PackParts, 'source' | 'findBuilt' | 'mostBytes'> | null
  }
  readonly logger: Pick<Logger, 'info' | 'warn'>
  /** Called before something is started, ended or removed. Throws when this server may no longer do so. */
  readonly fence: () => void
}

export interface DockerRuntime {
  readonly runtime: Runtime
  readonly packing: Packing | null
  /**
   * Removes what a killed server or engine has left: commands that nobody waits for, lost processes of containers,
   * empty networks, and records of removed containers. May be repeated, a minute later.
   */
  clean(): Promise<void>
  /** Containers continue. */
  close(): Promise<void>
}

const unhealthyGraceMs = 10_000

/** Runs releases as containers of a Docker engine. The containers outlive the server. */
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

/** The reconciler starts the instance again, as after a crash. */
async function endUnhealthy(
  containers: Pick<Containers, 'inspect' | 'signal' | 'ended'>,
  outputs: Pick<ReturnType<typeof createOutputs>, 'note'>,
  container: string,
): Promise<void> {
  const { Health } = (await containers.inspect(container))?.State ?? {}
  if (Health != null) await outputs.note(container, `Fairlead ends this instance: ${failureOf(Health)}`)
  await endContainer(containers, container, { graceMs: unhealthyGraceMs })
}

export interface BuilderParts extends AttachParts {
  readonly networks: Pick<ContainerNetworks, 'join'>
  readonly sources: Pick<Builder, 'prepare' | 'seal' | 'isBuilding'>
  readonly builds: Pick<Builder, 'isBuilding'> | null
  readonly fence: () => void
}

/**
 * Builds nothing itself: `Images` makes the images of releases from the sources of another builder. Each command of a
 * build runs in a separate container of the finished image, so files that it writes are not kept.
 */
function createBuilder(parts: BuilderParts): Builder {
  const { engine, server, sources, builds, fence } = parts
  const lock = createKeyedLock()
  const building = new Map<string, number>()
  const count = (appId: string, by: number) => building.set(appId, (building.get(appId) ?? 0) + by)

  return {
    prepare: (release) => sources.prepare(release),
    seal: (release, signal, next) => sources.seal(release, signal, next),

    async copy(from, release, signal) {
      signal.throwIfAborted()
      fence()
      await nameImage(engine, imageOf(server, from), imageOf(server, release))
    },

    async build(release, { output, signal }, steps) {
      count(release.appId, 1)
      const own = new AbortController()
      const running = new Set<Promise<unknown>>()
      try {
        return await lock(
          release.appId,
          () =>
            steps((command, ofCommand) => {
              const limit = AbortSignal.any([signal, ofCommand, own.signal])
              const run = runCommand(parts, release, command, output, limit)
              running.add(run)
              void run.catch(() => undefined).finally(() => running.delete(run))
              return run
            }),
          signal,
        )
      } finally {
        own.abort(new Error('the build is over'))
        await Promise.allSettled(running)
        count(release.appId, -1)
        if (building.get(release.appId) === 0) building.delete(release.appId)
      }
    },

    isBuilding: (appId) => building.has(appId) || sources.isBuilding(appId) || builds?.isBuilding(appId) === true,
  }
}

async function runCommand(
  parts: BuilderParts,
  release: Release,
  command: Parameters<Parameters<Parameters<Builder['build']>[2]>[0]>[0],
  output: Pick<FileHandle, 'appendFile'>,
  signal: AbortSignal,
) {
  signal.throwIfAborted()
  const target = new Writable({
    write: (chunk: Buffer, _, done) => void output.appendFile(chunk).then(() => done(), done),
  })
  const request = { argv: command.argv, tty: null, stdin: Readable.from([]), stdout: target, stderr: target, signal }
  const image = imageOf(parts.server, release)
  const { Config: config = null } = (await parts.containers.image(image)) ?? {}
  const exit = await parts.networks.join(release.projectId, (network) =>
    runInContainer(
      parts,
      {
        ...{ release, command, network, image, config, port: null },
        labels: { [unitLabel]: 'build' },
      },
      request,
      { graceMs: 0 },
    ),
  )
  signal.throwIfAborted()
  return exit
}
