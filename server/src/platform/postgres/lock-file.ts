import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readOptional } from '../files.ts'
import { inspectProcess, type ProcessInfo, pidIsTaken } from '../processes.ts'

/** PostgreSQL creates the file and writes it at once. A file that stays empty this long was left by a full disk. */
const emptyFileGraceMs = 2000

export interface PostmasterLock {
  readonly pid: number
  readonly port: number
  readonly socketDirectory: string
  /** `starting`, `ready`, `standby` or `stopping`; empty while PostgreSQL has not written it yet. */
  readonly status: string
}

/** The process that holds a cluster's folder, according to its `postmaster.pid`. */
export type Holder =
  | { readonly state: 'none' }
  /** A living postmaster of this folder. */
  | ({ readonly state: 'running' } & PostmasterLock)
  /** The process is gone, or its pid belongs to another program now. */
  | { readonly state: 'stale'; readonly pid: number }
  /** The file is there but has no pid. */
  | { readonly state: 'empty' }

/** Parses the lines of `postmaster.pid` (PostgreSQL's pidfile.h). Returns null when there is no pid. */
export function parsePostmasterPid(text: string): PostmasterLock | null {
  const lines = text.split('\n')
  // A standalone backend writes its pid negated.
  const pid = Math.abs(Number(lines[0]))
  if (!Number.isInteger(pid) || pid === 0) return null
  return { pid, port: Number(lines[3] ?? 0) || 0, socketDirectory: lines[4] ?? '', status: (lines[7] ?? '').trim() }
}

/**
 * True when a living process is PostgreSQL on `directory`, a real path. A server process stays in the folder of its
 * cluster; where the system does not report the working directory, the command line has it after `-D`. With neither,
 * any PostgreSQL counts as the holder: breaking a valid lock is worse than keeping a stale lock.
 */
export function holdsDirectory(info: ProcessInfo, directory: string): boolean {
  if (info.command !== 'postgres') return false
  if (info.directory !== null) return info.directory === directory
  return !info.commandLine.includes(' -D ') || `${info.commandLine} `.includes(` -D ${directory} `)
}

export function findHolder(directory: string): Promise<Holder> {
  return readHolder(clusterLock(directory), directory)
}

/** Returns the postmaster that runs on a cluster's folder; `null` when none does. Starts nothing. */
export async function findPostmaster(directory: string): Promise<PostmasterLock | null> {
  const holder = await findHolder(await realpath(directory).catch(() => directory))
  return holder.state === 'running' ? holder : null
}

/** Reads any lock file of PostgreSQL; a socket's has the same first lines. */
async function readHolder(file: string, directory: string): Promise<Holder> {
  const text = await readOptional(file)
  if (text === undefined) return { state: 'none' }
  const lock = parsePostmasterPid(text)
  if (lock === null) return { state: 'empty' }
  const running = await isPostmaster(lock.pid, directory)
  return running ? { state: 'running', ...lock } : { state: 'stale', pid: lock.pid }
}

export async function isPostmaster(pid: number, directory: string): Promise<boolean> {
  const info = await inspectProcess(pid)
  if (info === null) return false
  const real = await realpath(directory).catch(() => directory)
  return holdsDirectory(info, real)
}

/**
 * Removes `postmaster.pid` and the lock of the socket when PostgreSQL would wrongly believe that they are held: the pid
 * belongs to another program or to a zombie, or the file is empty. The caller must hold the start lock, so that no
 * other process starts a postmaster between check and removal. A lock of a dead pid is left to PostgreSQL, which also
 * checks the shared memory named in it; it finds orphaned backends by the folder's inode in either case.
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
