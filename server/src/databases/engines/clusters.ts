import { join } from 'node:path'
import { unlessAborted } from '../../platform/abort.ts'
import type { Logger } from '../../platform/logger.ts'
import { writeHba } from '../../platform/postgres/access.ts'
import { speakTls } from '../../platform/postgres/binaries.ts'
import { type CloseOptions, type Cluster, openCluster } from '../../platform/postgres/cluster.ts'
import type { BinariesStore } from '../../platform/postgres/install.ts'
import { findPostmaster } from '../../platform/postgres/running.ts'
import { endUnauthenticated } from '../../platform/postgres/unauthenticated.ts'
import { sendSignal } from '../../platform/processes.ts'
import type { OsUser } from '../../platform/users.ts'
import { databaseClusterAccess, hba, loginLimits, sessionPlaces } from './cluster-access.ts'
import { EngineError, type InstanceKey } from './engine.ts'
import { createInstance, type Instance } from './instance.ts'
import type { Certificates } from './tls/certificates.ts'

export interface ClustersOptions {
  /** The folder with one subfolder for each version. */
  readonly directory: string
  /** The folder for copies of binaries that `user` cannot access. */
  readonly runtimeDirectory: string
  /** The user that the clusters run as if the server is root; otherwise `null`. */
  readonly user: OsUser | null
  readonly binaries: BinariesStore
  readonly certificates: Certificates
  readonly logger: Logger
}

export interface Clusters {
  open(key: InstanceKey, signal: AbortSignal): Promise<Instance>
  /** Returns the opened instances by version; `null` for an instance whose last start failed. */
  all(): ReadonlyMap<string, Instance | null>
  /** Ends connections that have not logged in, beyond the limits of their clusters. Returns their number. */
  limitLogins(): Promise<number>
  /** Gives the open clusters a new certificate before theirs expires, without ending connections. */
  renewCertificate(): Promise<void>
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
  const failed = new Set<string>()
  const placesOf = createPlaces()
  const start = async (key: InstanceKey): Promise<OpenCluster> => {
    const opened = await startCluster(options, key, closing.signal)
    running.set(key.version, opened)
    failed.delete(key.version)
    return opened
  }

  return {
    async open(key, signal) {
      closing.signal.throwIfAborted()
      signal.throwIfAborted()
      // Concurrent callers share one start.
      const started = opening.get(key.version) ?? start(key)
      opening.set(key.version, started)
      started.catch(() => {
        opening.delete(key.version)
        failed.add(key.version)
      })
      return (await unlessAborted(started, signal)).instance
    },

    all: () =>
      new Map<string, Instance | null>([
        ...[...failed].map((version) => [version, null] as const),
        ...[...running].map(([version, { instance }]) => [version, instance] as const),
      ]),

    async limitLogins() {
      let ended = 0
      for (const [version, { instance }] of running) {
        const postmaster = await findPostmaster(dataDirectory(options.directory, version))
        if (postmaster !== null)
          ended += endUnauthenticated(postmaster.pid, loginLimits(await placesOf(postmaster.pid, instance)))
      }
      return ended
    },

    async renewCertificate() {
      if (running.size === 0 || !(await options.certificates.ensure())) return
      for (const version of running.keys()) await reload(options.directory, version)
    },

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

/**
 * Returns a function that reads how many connections users have. The number is cached for each postmaster, because it
 * changes only with a new start.
 */
function createPlaces(): (pid: number, instance: Instance) => Promise<number> {
  const known = new Map<number, number>()
  return async (pid, { statistics }) => {
    const places = known.get(pid) ?? (await statistics.places())
    known.set(pid, places)
    return places
  }
}

async function startCluster(
  { directory, runtimeDirectory, user, binaries, certificates, logger }: ClustersOptions,
  { version, port }: InstanceKey,
  signal: AbortSignal,
): Promise<OpenCluster> {
  const installed = await binaries.install(version, signal).catch((error: unknown) => {
    throw new EngineError('version_unavailable', messageOf(error), { cause: error })
  })
  const usesTls = (await speakTls(installed)) && (await hasCertificate(certificates, logger))
  const cluster = await openCluster({
    directory: dataDirectory(directory, version),
    runtimeDirectory,
    user,
    logger,
    signal,
    supervise: true,
    binaries: installed,
    access: databaseClusterAccess(version, port, usesTls ? certificates : null),
  }).catch((error: unknown) => {
    logger.error({ err: error, version }, "the PostgreSQL of users' databases does not start")
    const message = `PostgreSQL ${version} does not start on this server; its operator finds the reason in the log.`
    throw new EngineError('engine_unavailable', message, { cause: error })
  })
  // A cluster that kept running may have an older certificate, and the access rules of an older server.
  await writeHba(dataDirectory(directory, version), hba)
  await reload(directory, version)
  const onLost = (error: Error) => logger.debug({ err: error, version }, 'an administrative connection was lost')
  return { cluster, instance: createInstance({ ...cluster.connection }, onLost, { sessionPlaces }) }
}

/** Databases matter more than TLS: without a certificate, clients connect without TLS. */
function hasCertificate(certificates: Certificates, logger: Logger): Promise<boolean> {
  return certificates.ensure().then(
    () => true,
    (error: unknown) => {
      logger.error(
        { err: error },
        "the certificate of users' databases could not be made; they are reached without TLS",
      )
      return false
    },
  )
}

/** Makes a cluster reload its certificate and its access rules. */
async function reload(directory: string, version: string): Promise<void> {
  const postmaster = await findPostmaster(dataDirectory(directory, version))
  // A stopped cluster reads them when it starts again.
  if (postmaster !== null) sendSignal(postmaster.pid, 'SIGHUP')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
