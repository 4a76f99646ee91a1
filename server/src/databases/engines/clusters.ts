import { join } from 'node:path'
import { unlessAborted } from '../../platform/abort.ts'
import type { Logger } from '../../platform/logger.ts'
import { type CloseOptions, type Cluster, openCluster } from '../../platform/postgres/cluster.ts'
import type { BinariesStore } from '../../platform/postgres/install.ts'
import type { OsUser } from '../../platform/users.ts'
import { databaseClusterAccess } from './cluster-access.ts'
import { EngineError, type InstanceKey } from './engine.ts'
import { createInstance, type Instance } from './instance.ts'

export interface ClustersOptions {
  /** Holds one folder for each version. */
  readonly directory: string
  /** The folder for copies of binaries that `user` cannot reach. */
  readonly runtimeDirectory: string
  /** The user that the clusters run as when the server is root, otherwise `null`. */
  readonly user: OsUser | null
  readonly binaries: BinariesStore
  readonly logger: Logger
}

/** The clusters that are open, one for each version. */
export interface Clusters {
  open(key: InstanceKey, signal: AbortSignal): Promise<Instance>
  /** Returns all instances that are running. */
  all(): readonly Instance[]
  close(options?: CloseOptions): Promise<void>
}

interface OpenCluster {
  readonly cluster: Cluster
  readonly instance: Instance
}

export function dataDirectory(directory: string, version: string): string {
  return join(directory, version, 'data')
}

export function createClusters(options: ClustersOptions): Clusters {
  const closing = new AbortController()
  const opening = new Map<string, Promise<OpenCluster>>()
  const running = new Map<string, OpenCluster>()

  const start = async (key: InstanceKey): Promise<OpenCluster> => {
    const opened = await startCluster(options, key, closing.signal)
    running.set(key.version, opened)
    return opened
  }

  return {
    async open(key, signal) {
      closing.signal.throwIfAborted()
      signal.throwIfAborted()
      // Concurrent callers share one start.
      const started = opening.get(key.version) ?? start(key)
      opening.set(key.version, started)
      started.catch(() => opening.delete(key.version))
      return (await unlessAborted(started, signal)).instance
    },

    all: () => [...running.values()].map(({ instance }) => instance),

    async close(options) {
      closing.abort(new Error('the server is stopping'))
      await Promise.allSettled(opening.values())
      await Promise.all(
        [...running.values()].map(async ({ cluster, instance }) => {
          await instance.close()
          await cluster.close(options)
        }),
      )
    },
  }
}

async function startCluster(
  { directory, runtimeDirectory, user, binaries, logger }: ClustersOptions,
  { version, port }: InstanceKey,
  signal: AbortSignal,
): Promise<OpenCluster> {
  const installed = await binaries.install(version, signal).catch((error: unknown) => {
    throw new EngineError('version_unavailable', messageOf(error), { cause: error })
  })
  const cluster = await openCluster({
    directory: dataDirectory(directory, version),
    runtimeDirectory,
    user,
    logger,
    signal,
    supervise: true,
    binaries: installed,
    access: databaseClusterAccess(port),
  }).catch((error: unknown) => {
    logger.error({ err: error, version }, "the PostgreSQL of users' databases does not start")
    const message = `PostgreSQL ${version} does not start on this server; its operator finds the reason in the log.`
    throw new EngineError('engine_unavailable', message, { cause: error })
  })
  const onLost = (error: Error) => logger.debug({ err: error, version }, 'an administrative connection was lost')
  return { cluster, instance: createInstance({ ...cluster.connection }, onLost) }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
