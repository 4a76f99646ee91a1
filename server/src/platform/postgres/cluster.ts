import { once } from 'node:events'
import { access, constants, realpath, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { startPeriodic } from '../periodic.ts'
import { lastLines } from '../programs.ts'
import { assertReachable, makePassableDirectory } from '../reachable-files.ts'
import { makePrivateDirectory } from '../socket-folder.ts'
import { tryStartLock } from '../start-lock.ts'
import type { OsUser } from '../users.ts'
import { type ClusterAccess, chooseSocketDirectory, privateAccess, writeHba } from './access.ts'
import { type Binaries, locateBinaries, reachableBinaries } from './binaries.ts'
import { examineCluster, initialise } from './initialise.ts'
import {
  findHolder,
  limitLog,
  logFileOf,
  removeMisleadingLocks,
  startPostmaster,
  stopPostmaster,
} from './postmaster.ts'
import { type ClusterConnection, joinCluster, type Session } from './session.ts'

/** After a crash, recovery reads up to a gigabyte of log (max_wal_size), which takes a slow disk this long. */
const openDeadlineMs = 120_000
const logEveryMs = 5_000

export interface Cluster {
  /** The settings for `new Pool({ ...cluster.connection })`. They stay the same when the cluster is restarted. */
  readonly connection: ClusterConnection
  /**
   * Ends this process's use of the cluster, after its connections were closed, and stops PostgreSQL when no other
   * process uses it.
   *
   * @param options.keep leaves PostgreSQL running in any case, for a later process
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
  // A folder of root was never a running cluster; later checks say what is wrong with it.
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

const attachDeadlineMs = 120_000
/** After running this long a cluster counts as stable: the back-off starts again at zero. */
const stableMs = 60_000

interface Supervision {
  /** Ends the supervision and returns the current session, or the last one when PostgreSQL is down. */
  stop(): Promise<Session>
}

/** Returns the pause before the next attempt: 1 s, doubled each time, at most 30 s. */
export function nextPause(pauseMs: number): number {
  return Math.min(30_000, Math.max(1000, pauseMs * 2))
}

/**
 * Restores a lost session, and starts a postmaster that has died. The lost connection reveals both without polling: the
 * backend of an idle session ends with its postmaster, regardless of who started it.
 */
function superviseSession(context: ClusterContext, first: Session): Supervision {
  const { logger } = context
  const stopping = new AbortController()
  const { signal } = stopping
  const stopped = once(signal, 'abort')
  let session = first

  async function run(): Promise<void> {
    let pauseMs = 0
    for (;;) {
      const since = performance.now()
      await Promise.race([session.lost, stopped])
      if (signal.aborted) return
      if (performance.now() - since >= stableMs) pauseMs = 0
      logger.error({ pid: session.pid }, 'The connection to PostgreSQL was lost; restoring it')
      let next: Session | null = null
      while (next === null) {
        await delay(pauseMs, undefined, { signal })
        pauseMs = nextPause(pauseMs)
        next = await attach(context, signal, attachDeadlineMs).catch((error) => {
          if (!signal.aborted) logger.error({ err: error, pauseMs }, 'PostgreSQL could not be started again')
          return null
        })
      }
      session = next
      logger.info({ pid: session.pid }, 'PostgreSQL is back')
    }
  }
  const running = run().catch((error) => {
    if (!signal.aborted) throw error
  })

  return {
    async stop() {
      stopping.abort()
      await running
      return session
    },
  }
}

/**
 * Joins the cluster in any state: creates it, starts it, adopts a postmaster of another process, or waits while one
 * starts or stops. Every round examines the folder again, so any number of processes may do this while others leave.
 * Rejects with an error that names the obstacle after `deadlineMs`.
 */
async function attach(context: ClusterContext, signal: AbortSignal, deadlineMs: number): Promise<Session> {
  const { directory, binaries, user } = context
  const deadline = performance.now() + deadlineMs
  const limited = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)])
  let obstacle = 'it does not answer'
  let started = false
  try {
    // Applies to a running cluster too: it must not be used with another version.
    await examineCluster({ directory, version: binaries.version, user })
    while (performance.now() < deadline) {
      signal.throwIfAborted()
      let waitMs = retryMs
      const holder = await findHolder(directory)
      if (holder.state !== 'running') {
        const attempt = await tryStart(context, signal, deadline)
        started ||= attempt.state === 'started'
        if (attempt.state !== 'blocked') continue
        obstacle = attempt.obstacle
        waitMs = attempt.retryMs
      } else if (holder.status !== 'ready') {
        obstacle = `its process ${holder.pid} is ${holder.status || 'starting'}`
      } else {
        const session = await joinCluster(holder, directory, context.access.database, limited)
        if (session !== null) return session
        obstacle = `its process ${holder.pid} takes no connections in ${holder.socketDirectory}`
      }
      await delay(waitMs, undefined, { signal: limited })
    }
    limited.throwIfAborted()
    throw new DOMException('The deadline is over', 'TimeoutError')
  } catch (error) {
    // The postmaster was started only for this process, so it stops. The caller gets the first error.
    if (started) await leave(context, null).catch((err) => context.logger.warn({ err }, 'PostgreSQL keeps running'))
    signal.throwIfAborted()
    if (!(error instanceof Error && ['AbortError', 'TimeoutError'].includes(error.name))) throw error
    throw new Error(`PostgreSQL on ${directory} is not ready after ${deadlineMs / 1000} s: ${obstacle}`)
  }
}

/**
 * Stops the cluster when no other process uses it. Without a session, this process first joins a running cluster again,
 * to find out.
 */
async function leave(context: ClusterContext, held: Session | null): Promise<void> {
  const session = held === null || held.isLost() ? await joinAgain(context) : held
  if (session === null) return
  try {
    if (!(await session.leave())) return
    const begin = performance.now()
    await stopPostmaster(session.pid, context.directory)
    context.logger.info({ pid: session.pid, ms: Math.round(performance.now() - begin) }, 'PostgreSQL stopped')
  } finally {
    await session.end()
  }
}

async function joinAgain({ directory, access }: ClusterContext): Promise<Session | null> {
  const holder = await findHolder(directory)
  if (holder.state !== 'running') return null
  return joinCluster(holder, directory, access.database, AbortSignal.timeout(5000))
}

const retryMs = 40
const orphansRetryMs = 500

interface ClusterContext {
  /**
   * The cluster's folder, a real path. Its parent belongs only to this cluster, and holds log, socket and start lock.
   */
  readonly directory: string
  readonly binaries: Binaries
  readonly access: ClusterAccess
  /** The folder for copies of the binaries when `user` cannot reach the installed ones. */
  readonly runtimeDirectory: string
  readonly user: OsUser | null
  /** Called before each start. When the disk is full, it frees the space that was set aside for PostgreSQL. */
  readonly makeRoom: () => Promise<void>
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
}

type Attempt =
  | { readonly state: 'started' }
  | { readonly state: 'found' }
  /** It cannot be started at the moment. */
  | { readonly state: 'blocked'; readonly obstacle: string; readonly retryMs: number }

/**
 * Creates a missing cluster and starts its postmaster, under the start lock. Rejects, with the last lines of the log,
 * when a retry would not help.
 */
async function tryStart(context: ClusterContext, signal: AbortSignal, deadline: number): Promise<Attempt> {
  await context.makeRoom()
  const release = await tryStartLock(join(dirname(context.directory), 'start.lock'))
  if (release === null) return { state: 'blocked', obstacle: 'another process is starting it', retryMs }
  try {
    return await startLocked(context, signal, deadline)
  } finally {
    await release()
  }
}

async function startLocked(context: ClusterContext, signal: AbortSignal, deadline: number): Promise<Attempt> {
  const { directory, user, logger, access } = context
  if ((await findHolder(directory)).state === 'running') return { state: 'found' }
  const begin = performance.now()
  const parent = dirname(directory)
  const state = await examineCluster({ directory, version: context.binaries.version, user })
  if (state === 'missing') await initialise({ ...context, signal })
  const socketDirectory = chooseSocketDirectory({
    directory,
    parent,
    temporary: tmpdir(),
    platform: process.platform,
    port: access.port,
  })
  await makePrivateDirectory(socketDirectory, user)
  await removeMisleadingLocks(directory, socketDirectory, access.port, signal)
  if (access.hba !== null) await writeHba(directory, access.hba)
  const native = await reachableBinaries({ binaries: context.binaries, copyTo: context.runtimeDirectory, user })
  const logFile = logFileOf(directory)
  const outcome = await startPostmaster({
    executable: join(native, 'bin', 'postgres'),
    directory,
    socketDirectory,
    access,
    logFile,
    user,
    signal,
    deadline,
  })
  if (outcome.state === 'ready') {
    logger.info({ pid: outcome.pid, directory, ms: Math.round(performance.now() - begin) }, 'PostgreSQL started')
    return { state: 'started' }
  }
  if (outcome.state === 'starting') {
    return { state: 'blocked', obstacle: `its process ${outcome.pid} is still starting; see ${logFile}`, retryMs }
  }
  // An operator's pg_ctl takes no start lock.
  if ((await findHolder(directory)).state === 'running') return { state: 'found' }
  // PostgreSQL's check failed: backends of a killed postmaster may still be writing to the files.
  if (/shared memory block .* still in use/.test(outcome.log)) {
    const obstacle = 'processes of an earlier PostgreSQL on this folder are still running; wait for them or end them'
    return { state: 'blocked', obstacle, retryMs: orphansRetryMs }
  }
  throw new Error(
    `PostgreSQL on ${directory} ended while starting (exit code ${outcome.code}). The end of ${logFile}:\n` +
      lastLines(outcome.log),
  )
}
