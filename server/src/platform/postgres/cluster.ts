import { access, constants, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { assertReachable, makePassableDirectory } from '../machine/reach.ts'
import { startPeriodic } from '../periodic.ts'
import type { OsUser } from '../users.ts'
import { type ClusterAccess, privateAccess } from './access.ts'
import { attach, leave } from './attach.ts'
import { type Binaries, locateBinaries } from './binaries.ts'
import { limitLog, logFileOf } from './log-file.ts'
import type { ClusterConnection } from './session.ts'
import type { ClusterContext } from './start.ts'
import { superviseSession } from './supervise.ts'

/** Recovery after a crash reads up to a gigabyte of log (max_wal_size), which takes a slow disk this long. */
const openDeadlineMs = 120_000
const logEveryMs = 5_000

export interface Cluster {
  /** The settings for `new Pool({ ...cluster.connection })`. They stay the same when the cluster is restarted. */
  readonly connection: ClusterConnection
  /**
   * Ends this process's use of the cluster, after its own connections were closed, and stops PostgreSQL when no other
   * process uses it.
   *
   * @param options.keep true to leave PostgreSQL running in any case, for a later process
   */
  close(options?: CloseOptions): Promise<void>
}

export interface CloseOptions {
  readonly keep: boolean
}

export interface ClusterOptions {
  /**
   * The cluster's folder. Its parent belongs only to this cluster, and holds `postgres.log`, the socket and the start
   * lock.
   */
  readonly directory: string
  /** The folder for copies of the binaries, by version, when `user` cannot reach the installed ones. */
  readonly runtimeDirectory: string
  /** The user that PostgreSQL runs as. Needed when the server is root, null otherwise. */
  readonly user: OsUser | null
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
  readonly signal: AbortSignal
  /** Called before each start of PostgreSQL. */
  readonly makeRoom?: () => Promise<void>
  /**
   * True to start PostgreSQL again, with back-off, when it ends unexpectedly, and to keep its log small; for long-lived
   * processes.
   */
  readonly supervise: boolean
  /** The PostgreSQL to run; by default the binaries that ship with the server. */
  readonly binaries?: Binaries
  /** The access to the cluster; by default only Fairlead has access. */
  readonly access?: ClusterAccess
}

/**
 * Opens the embedded PostgreSQL cluster in `directory`: creates it the first time, starts it, or shares the running
 * one. Any number of processes may have it open; the last one to close stops it. Opening also recovers from a crash of
 * this process or of PostgreSQL.
 *
 * Rejects with errors that say what to do: no binaries, another major version, a folder that cannot be written or that
 * `user` cannot reach, a failing initdb or start (with the last lines of output), the deadline of two minutes.
 */
export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const context = await prepare(options)
  const session = await attach(context, options.signal, openDeadlineMs)
  const supervision = options.supervise ? superviseSession(context, session) : null
  const log = options.supervise ? keepLogSmall(context) : null

  async function close(keep: boolean): Promise<void> {
    await log?.stop()
    const held = supervision === null ? session : await supervision.stop()
    if (keep) await held.end()
    else await leave(context, held)
  }
  let closed: Promise<void> | undefined
  return {
    connection: session.connection,
    close({ keep } = { keep: false }) {
      closed ??= close(keep)
      return closed
    },
  }
}

const keepLogSmall = ({ directory, logger }: ClusterContext) =>
  startPeriodic({
    name: 'limiting the log of PostgreSQL',
    everyMs: logEveryMs,
    work: () => limitLog(logFileOf(directory)),
    logger,
  })

/**
 * PostgreSQL accepts only files that belong to its user. This check comes first, because a later error suggests to open
 * the files to other users.
 */
async function assertOwned(directory: string, user: OsUser | null): Promise<void> {
  const owner = (await stat(directory).catch(() => undefined))?.uid
  // A folder that root owns was never a running cluster; later checks say what is wrong with it.
  if (user === null || owner === undefined || owner === 0 || owner === user.uid) return
  throw new Error(
    `${directory} belongs to user id ${owner}, and PostgreSQL would be run as ${user.uid}. ` +
      'Use the FAIRLEAD_UIDS that the server was first started with.',
  )
}

async function prepare(options: ClusterOptions): Promise<ClusterContext> {
  const { user, runtimeDirectory, logger } = options
  const binaries = options.binaries ?? (await locateBinaries())
  if (user === null && process.getuid?.() === 0) {
    throw new Error('PostgreSQL refuses to run as root: the server must hand it an unprivileged user id')
  }
  const parent = dirname(options.directory)
  try {
    await makePassableDirectory(parent)
    await access(parent, constants.W_OK | constants.X_OK)
  } catch (error) {
    const { message } = error as Error
    throw new Error(`The folder ${parent} for PostgreSQL cannot be written: ${message}`, { cause: error })
  }
  // Identified by its real path: processes may use different paths to the same folder.
  const named = join(await realpath(parent), basename(options.directory))
  const directory = await realpath(named).catch(() => named)
  await assertOwned(directory, user)
  await assertReachable(directory, user)
  const { access: given = privateAccess, makeRoom = async () => undefined } = options
  return { directory, binaries, access: given, runtimeDirectory, user, makeRoom, logger }
}
