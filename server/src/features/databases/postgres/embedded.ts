import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { unlessAborted } from '../../../platform/abort.ts'
import type { Range } from '../../../platform/config.ts'
import type { Transaction } from '../../../platform/database.ts'
import { readOptional } from '../../../platform/files.ts'
import type { Logger } from '../../../platform/logger.ts'
import { isPortFree } from '../../../platform/ports.ts'
import { type ClusterAccess, writeHba } from '../../../platform/postgres/access.ts'
import { type BinariesStore, speakTls } from '../../../platform/postgres/binaries.ts'
import { type CloseOptions, type Cluster, openCluster } from '../../../platform/postgres/cluster.ts'
import { findPostmaster } from '../../../platform/postgres/postmaster.ts'
import { type ChildProcess, childrenOf, sendSignal } from '../../../platform/processes.ts'
import type { OsUser } from '../../../platform/users.ts'
import type { DatabasesTables } from '../rows.ts'
import type { Certificates } from './certificates.ts'
import { createInstance, type Engine, EngineError, type Instance, type InstanceKey } from './engine.ts'
import type { Statistics } from './statistics.ts'

interface EmbeddedEngineOptions extends ClustersOptions {
  /** The host in connection strings, by which apps reach this machine. */
  readonly host: string
  readonly ports: Range
}

/**
 * Runs PostgreSQL clusters on this machine, one for each version, separate from the cluster with Fairlead's state. They
 * start when first needed and are supervised. They may outlive the server; the next server adopts them.
 */
export function createEmbeddedEngine(options: EmbeddedEngineOptions): Engine {
  const { binaries, certificates, directory, host, ports } = options
  const clusters = createClusters(options)
  return {
    name: 'embedded',
    versions: async () => binaries.majors,
    addressOf: async (transaction, version) => ({ host, port: await clusterPort(transaction, version, ports) }),
    open: clusters.open,
    instances: clusters.all,
    exists: async (version) =>
      (await readOptional(join(dataDirectory(directory, version), 'PG_VERSION'))) !== undefined,

    async limitLocks(maxLocks) {
      const databases: number[] = []
      for (const instance of clusters.all().values()) {
        if (instance !== null) databases.push(...(await endLockHolders(instance.statistics, maxLocks)))
      }
      return databases
    },

    limitLogins: clusters.limitLogins,
    authority: certificates.authority,
    renewCertificate: clusters.renewCertificate,
    close: clusters.close,
  }
}

interface ClustersOptions {
  readonly directory: string
  /** The folder for copies of binaries that `user` cannot access. */
  readonly runtimeDirectory: string
  /** The user that the clusters run as if the server is root; otherwise `null`. */
  readonly user: OsUser | null
  readonly binaries: BinariesStore
  readonly certificates: Certificates
  readonly logger: Logger
}

interface Clusters {
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

function dataDirectory(directory: string, version: string): string {
  return join(directory, version, 'data')
}

function createClusters(options: ClustersOptions): Clusters {
  const closing = new AbortController()
  const opening = new Map<string, Promise<OpenCluster>>()
  const running = new Map<string, OpenCluster>()
  const failed = new Set<string>()
  const userConnectionsOf = createUserConnections()
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
          ended += endUnauthenticated(postmaster.pid, loginLimits(await userConnectionsOf(postmaster.pid, instance)))
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
 * Returns a function that reads how many connections users have. The number is cached for each postmaster, because only
 * a new start changes it.
 */
function createUserConnections(): (pid: number, instance: Instance) => Promise<number> {
  const cached = new Map<number, number>()
  return async (pid, { statistics }) => {
    const userConnections = cached.get(pid) ?? (await statistics.userConnections())
    cached.set(pid, userConnections)
    return userConnections
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
  return { cluster, instance: createInstance({ ...cluster.connection }, onLost, { maxUserSessions }) }
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

async function reload(directory: string, version: string): Promise<void> {
  const postmaster = await findPostmaster(dataDirectory(directory, version))
  // A stopped cluster reads them when it starts again.
  if (postmaster !== null) sendSignal(postmaster.pid, 'SIGHUP')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/**
 * Ends the sessions of databases that hold more than `maxLocks` locks, and returns the OIDs of these databases. Sends
 * signals to the processes, which run on this machine: with a full lock table `pg_terminate_backend` fails, because it
 * looks up the owner of the session.
 */
async function endLockHolders(
  statistics: Pick<Statistics, 'lockHolders'>,
  maxLocks: number,
): Promise<readonly number[]> {
  const holders = await statistics.lockHolders(maxLocks)
  // The signal that `pg_terminate_backend` sends.
  for (const { pid } of holders) sendSignal(pid, 'SIGTERM')
  return [...new Set(holders.map(({ database }) => database))]
}

/** The clusters listen only on loopback: these binaries bundle an old OpenSSL, which no network should reach. */
const listenAddress = '127.0.0.1'

/**
 * Fairlead connects through the socket, in a folder that only Fairlead can enter. Over TCP a role reaches only the
 * database with the same name (`sameuser`) and the database of the role that it works as (`samerole`), even if it has
 * rights on other databases.
 */
const hba = `local all               fairlead              trust
host  all               fairlead ${listenAddress}/32 reject
host  sameuser,samerole all      ${listenAddress}/32 scram-sha-256
`

/**
 * The connections for all sessions of users together. PostgreSQL leaves 1,675 connections to users. The rest is for
 * logins in progress, so that ten apps with all connections of their networks (`sessionsEach`) do not keep other users
 * out.
 */
const maxUserSessions = 450

const settings = {
  // The administrator always gets in. The reserve is larger than needed, because PostgreSQL accepts twice as many
  // connections that have not logged in as `max_connections`, and each costs no more than a waiting process.
  max_connections: '2000',
  superuser_reserved_connections: '325',
  // Until this timeout, a client that does not authenticate takes a connection from everybody.
  authentication_timeout: '10s',
  shared_buffers: '128MB',
  // 50 × 2000 locks for all sessions together; `Engine.limitLocks` keeps one database from taking all of them.
  max_locks_per_transaction: '50',
  max_prepared_transactions: '0',
  password_encryption: 'scram-sha-256',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  // Users' statements and errors are private, so they are not logged.
  log_min_messages: 'fatal',
  log_min_error_statement: 'panic',
  // A refused login takes one line.
  log_error_verbosity: 'terse',
}

/** 1 GB of unread notifications; before version 17 it is 8 GB and cannot be set. */
const notifications = { max_notify_queue_pages: '131072' }

interface LoginLimits {
  /** The client has sent nothing. PostgreSQL has such a connection in none of its tables, so there is room for many. */
  readonly silent: number
  /** The client has named user and database, and must authenticate. Takes one of `max_connections`. */
  readonly authenticating: number
  /** The connections that may authenticate at once, including connections that are younger than a moment. */
  readonly authenticatingAtOnce: number
}

/**
 * Returns how many connections to a cluster may exist without a login. Connections that have named a user take
 * connections that sessions leave free. As long as they fit, the oldest is not ended, because on a busy machine it may
 * be a slow but genuine login.
 *
 * @param userConnections the connections that users have; a cluster that outlived an update may have another number
 */
function loginLimits(userConnections: number): LoginLimits {
  const free = userConnections - maxUserSessions
  return { silent: 1_600, authenticating: Math.floor(free / 2), authenticatingAtOnce: free - 75 }
}

/** An honest client takes milliseconds for each step, on a very busy machine a second. */
const momentMs = 2_000

/**
 * Ends the oldest connections of a postmaster that have not logged in, beyond the limits; returns how many. PostgreSQL
 * accepts a fixed number of them (twice `max_connections`) from all peers together, before any limit of a database or
 * role counts, and waits for each for `authentication_timeout`. Does nothing where the system has no `/proc`.
 */
function endUnauthenticated(postmaster: number, limits: LoginLimits): number {
  const children = childrenOf(postmaster, Math.min(limits.silent, limits.authenticating))
  // A child has the title of its postmaster until the client has named a user and a database.
  const silent = children.filter(({ title }) => !title.startsWith('postgres: '))
  const authenticating = children.filter(({ title }) => / (initializing|authentication)$/.test(title))
  const surplus = [
    ...oldest(silent, limits.silent).filter(isSlow),
    ...oldest(authenticating, limits.authenticating).filter(isSlow),
    ...oldest(authenticating, limits.authenticatingAtOnce).filter((child) => !isSlow(child)),
  ]
  for (const { pid } of surplus) sendSignal(pid, 'SIGTERM')
  return surplus.length
}

function oldest(waiting: readonly ChildProcess[], most: number): ChildProcess[] {
  return waiting.slice(0, Math.max(0, waiting.length - most))
}

const isSlow = ({ ageMs }: ChildProcess): boolean => ageMs > momentMs

/** The private memory of one session in bytes; shared memory does not count. */
const processMemory = 512 * 1024 * 1024

/**
 * Returns the configuration and the address of the cluster of a version.
 *
 * @param certificates for clients that ask for TLS; `null` for a cluster without TLS
 */
function databaseClusterAccess(
  version: string,
  port: number,
  certificates: Pick<Certificates, 'certificateFile' | 'keyFile'> | null,
): ClusterAccess {
  const tls =
    certificates === null
      ? null
      : { ssl: 'on', ssl_cert_file: certificates.certificateFile, ssl_key_file: certificates.keyFile }
  return {
    database: 'postgres',
    port,
    listen: listenAddress,
    hba,
    settings: { ...settings, ...tls, ...(Number(version) >= 17 ? notifications : {}) },
    processMemory,
  }
}

/**
 * Returns the port of a version's cluster. Reserves a free port in `range` permanently when the version has no port
 * yet.
 */
async function clusterPort(transaction: Transaction, version: string, range: Range): Promise<number> {
  const trx = transaction.withTables<DatabasesTables>()
  const find = () =>
    trx.selectFrom('database_clusters').select('port').where('version', '=', version).executeTakeFirst()
  const found = await find()
  if (found !== undefined) return found.port
  const rows = await trx.selectFrom('database_clusters').select('port').execute()
  const port = await freePort(range, new Set(rows.map((row) => row.port)))
  await trx
    .insertInto('database_clusters')
    .values({ version, port })
    .onConflict((conflict) => conflict.column('version').doNothing())
    .execute()
  // Another transaction may have been faster.
  return (await find())?.port ?? port
}

/** Picks at random, so that servers that choose at the same time rarely choose the same port. */
async function freePort({ from, to }: Range, taken: ReadonlySet<number>): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(from, to + 1)
    if (!taken.has(port) && (await isPortFree(port, listenAddress))) return port
  }
  throw new Error(`No free port was found from ${from} to ${to}. Widen FAIRLEAD_DATABASE_PORTS.`)
}
