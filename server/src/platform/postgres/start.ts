import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { lastLines } from '../machine/last-lines.ts'
import { makePrivateDirectory } from '../machine/socket-folder.ts'
import { tryStartLock } from '../machine/start-lock.ts'
import type { OsUser } from '../users.ts'
import { type ClusterAccess, writeHba } from './access.ts'
import { type Binaries, reachableBinaries } from './binaries.ts'
import { examineCluster, initialise } from './initialise.ts'
import { findHolder, removeMisleadingLocks } from './lock-file.ts'
import { logFileOf } from './log-file.ts'
import { startPostmaster } from './postmaster.ts'
import { chooseSocketDirectory } from './socket.ts'

/** The pause between two attempts to join or start a cluster. */
export const retryMs = 40
const orphansRetryMs = 500

export interface ClusterContext {
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

export type Attempt =
  | { readonly state: 'started' }
  /** Another process started it first. */
  | { readonly state: 'found' }
  /** It cannot be started at the moment. */
  | { readonly state: 'blocked'; readonly obstacle: string; readonly retryMs: number }

/**
 * Creates the cluster when there is none and starts its postmaster, under the start lock. Rejects, with the last lines
 * of the log, when a retry would not help.
 */
export async function tryStart(context: ClusterContext, signal: AbortSignal, deadline: number): Promise<Attempt> {
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
  // An operator's pg_ctl may have started it, without taking the start lock.
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
