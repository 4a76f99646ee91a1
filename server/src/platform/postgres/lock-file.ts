import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readOptional } from '../files.ts'
import { inspectProcess, type ProcessInfo, pidIsTaken } from './processes.ts'

/** PostgreSQL makes the file and writes it at once. A file that stays empty this long was left by a full disk. */
const emptyFileGraceMs = 2000

export interface PostmasterLock {
  readonly pid: number
  readonly port: number
  readonly socketDirectory: string
  /** `starting`, `ready`, `standby` or `stopping`; empty while PostgreSQL has not written it yet. */
  readonly status: string
}

/** Who holds a cluster's folder, by its `postmaster.pid`. */
export type Holder =
  | { readonly state: 'none' }
  /** A living postmaster of this very folder. */
  | ({ readonly state: 'running' } & PostmasterLock)
  /** The process is gone, or the pid belongs to something else by now. */
  | { readonly state: 'stale'; readonly pid: number }
  /** The file is there but has no pid. */
  | { readonly state: 'empty' }

/** Reads the lines of `postmaster.pid` (PostgreSQL's pidfile.h). Null when it holds no pid. */
export function parsePostmasterPid(text: string): PostmasterLock | null {
  const lines = text.split('\n')
  // A standalone backend writes its pid negated.
  const pid = Math.abs(Number(lines[0]))
  if (!Number.isInteger(pid) || pid === 0) return null
  return { pid, port: Number(lines[3] ?? 0) || 0, socketDirectory: lines[4] ?? '', status: (lines[7] ?? '').trim() }
}

/**
 * Whether a living process is PostgreSQL on `directory`, a real path. A server process stays in the folder of its
 * cluster; where the system does not tell the working directory, the command line has it after `-D`. When neither
 * tells, a PostgreSQL counts as the holder: a lock is better kept once too often than broken once.
 */
export function holdsDirectory(info: ProcessInfo, directory: string): boolean {
  if (info.command !== 'postgres') return false
  if (info.directory !== null) return info.directory === directory
  return !info.commandLine.includes(' -D ') || `${info.commandLine} `.includes(` -D ${directory} `)
}

/** Finds out who holds the cluster in `directory`. */
export function findHolder(directory: string): Promise<Holder> {
  return readHolder(clusterLock(directory), directory)
}

/** The same by any lock file of PostgreSQL; that of a socket has the same first lines. */
async function readHolder(file: string, directory: string): Promise<Holder> {
  const text = await readOptional(file)
  if (text === undefined) return { state: 'none' }
  const lock = parsePostmasterPid(text)
  if (lock === null) return { state: 'empty' }
  const running = await isPostmaster(lock.pid, directory)
  return running ? { state: 'running', ...lock } : { state: 'stale', pid: lock.pid }
}

/** Whether `pid` is a living PostgreSQL on `directory`. */
export async function isPostmaster(pid: number, directory: string): Promise<boolean> {
  const info = await inspectProcess(pid)
  if (info === null) return false
  const real = await realpath(directory).catch(() => directory)
  return holdsDirectory(info, real)
}

/**
 * Removes `postmaster.pid` and the lock of the socket where PostgreSQL would take them for a living holder although
 * there is none: the pid belongs to another program or to a zombie, or the file is empty. Only for the owner of the
 * start lock, so that nobody can start a postmaster between the check and the removal. A lock of a dead pid is left to
 * PostgreSQL, which then also checks the shared memory named in it; orphaned backends are found by the folder's inode
 * in either case.
 */
export async function removeMisleadingLocks(
  directory: string,
  socketDirectory: string,
  port: number,
  signal: AbortSignal,
): Promise<void> {
  for (const file of [clusterLock(directory), join(socketDirectory, `.s.PGSQL.${port}.lock`)]) {
    let holder = await readHolder(file, directory)
    if (holder.state === 'empty') {
      await delay(emptyFileGraceMs, undefined, { signal })
      holder = await readHolder(file, directory)
    }
    const isMisleading = holder.state === 'empty' || (holder.state === 'stale' && pidIsTaken(holder.pid))
    if (isMisleading) await rm(file, { force: true })
  }
}

function clusterLock(directory: string): string {
  return join(directory, 'postmaster.pid')
}
