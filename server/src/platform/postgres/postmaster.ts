import {
  access,
  constants,
  copyFile,
  type FileHandle,
  open,
  realpath,
  rename,
  rm,
  stat,
  truncate,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readOptional } from '../files.ts'
import { inspectProcess, type ProcessInfo, pidIsTaken, sendSignal, startProcess } from '../processes.ts'
import type { OsUser } from '../users.ts'
import { type ClusterAccess, hbaFile, privateAccess } from './access.ts'

const pollMs = 20
const fastStopMs = 10_000
const immediateStopMs = 10_000

type StartOutcome =
  | { readonly state: 'ready'; readonly pid: number }
  /** It did not become ready in time. It keeps running, because it may be recovering. */
  | { readonly state: 'starting'; readonly pid: number }
  | { readonly state: 'exited'; readonly code: number | null; readonly log: string }

/**
 * Returns the command line of the postmaster. It contains the access to the cluster, because it takes precedence over
 * postgresql.conf. The socket's folder is quoted because the setting is a list.
 */
export function postmasterArguments(
  directory: string,
  socketDirectory: string,
  access: ClusterAccess = privateAccess,
): string[] {
  const settings = {
    ...access.settings,
    ...(access.hba === null ? {} : { hba_file: hbaFile(directory) }),
    listen_addresses: access.listen,
    unix_socket_directories: `"${socketDirectory.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',
    port: String(access.port),
  }
  return ['-D', directory, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

/**
 * Starts the postmaster in a separate session, so that Ctrl+C in a terminal signals only the server, which stops the
 * postmaster last. Resolves when it accepts connections, when it has ended, or at the deadline (a `performance.now()`
 * time). Stops it again when the signal aborts.
 */
export async function startPostmaster(options: {
  readonly executable: string
  readonly directory: string
  readonly socketDirectory: string
  readonly access: ClusterAccess
  readonly logFile: string
  readonly user: OsUser | null
  readonly signal: AbortSignal
  readonly deadline: number
}): Promise<StartOutcome> {
  const { directory, signal } = options
  const log = await openLog(options.logFile)
  try {
    const { size } = await log.stat()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const command = [options.executable, ...postmasterArguments(directory, options.socketDirectory, options.access)]
    const [program = '', ...args] = [...(await memoryLimit(options.access)), ...command]
    const child = startProcess(program, args, {
      ...(options.user ?? {}),
      cwd: '/',
      // macOS needs a fixed locale: looking one up starts a thread there, which PostgreSQL does not allow.
      env: { LC_ALL: 'C' },
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    })
    child.once('spawn', resolve)
    child.once('error', (error) =>
      reject(new Error(`${options.executable} cannot be run: ${error.message}`, { cause: error })),
    )
    await promise
    child.unref()
    const pid = child.pid as number
    const isAlive = async () => child.exitCode === null && child.signalCode === null
    for (;;) {
      if (signal.aborted) {
        await endProcess(pid, isAlive)
        signal.throwIfAborted()
      }
      if (!(await isAlive())) {
        return { state: 'exited', code: child.exitCode, log: await readFrom(options.logFile, size) }
      }
      const holder = await findHolder(directory)
      if (holder.state === 'running' && holder.pid === pid && holder.status === 'ready') return { state: 'ready', pid }
      if (performance.now() > options.deadline) return { state: 'starting', pid }
      await delay(pollMs)
    }
  } finally {
    await log.close()
  }
}

/**
 * Stops the postmaster of `directory` and waits until it is gone: by a fast shutdown, which rolls back open
 * transactions, then by an immediate one. Rejects when even that does not end it.
 */
export async function stopPostmaster(pid: number, directory: string): Promise<void> {
  await endProcess(pid, () => isPostmaster(pid, directory))
}

export interface PostmasterLock {
  readonly pid: number
  readonly port: number
  readonly socketDirectory: string
  /** `starting`, `ready`, `standby` or `stopping`; empty until PostgreSQL has written it. */
  readonly status: string
}

/** Returns the postmaster that runs on a cluster's folder; `null` when none does. Starts nothing. */
export async function findPostmaster(directory: string): Promise<PostmasterLock | null> {
  const holder = await findHolder(await realpath(directory).catch(() => directory))
  return holder.state === 'running' ? holder : null
}

type Holder =
  | { readonly state: 'none' }
  | ({ readonly state: 'running' } & PostmasterLock)
  /** The process is gone, or another program has its pid. */
  | { readonly state: 'stale'; readonly pid: number }
  | { readonly state: 'empty' }

export function findHolder(directory: string): Promise<Holder> {
  return readHolder(clusterLock(directory), directory)
}

/**
 * Removes locks that PostgreSQL would wrongly respect: the pid belongs to another program or to a zombie, or the file
 * is empty. The caller must hold the start lock, so that no postmaster starts in between. A dead pid's lock is left to
 * PostgreSQL, which also checks the shared memory named in it; it finds orphaned backends by the folder's inode in
 * either case.
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

export function logFileOf(directory: string): string {
  return join(dirname(directory), 'postgres.log')
}

/** Anybody who reaches the port can be refused a login, which is logged. */
const limitBytes = 1024 * 1024

/**
 * Empties a log above the limit, and keeps its content in `<file>.1`. PostgreSQL has the log open and appends, so it
 * continues at the beginning. Lines that it writes between the two steps are lost.
 */
export async function limitLog(path: string): Promise<void> {
  const size = await stat(path).then(
    (file) => file.size,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return 0
      throw error
    },
  )
  if (size <= limitBytes) return
  await copyFile(path, `${path}.1`)
  await truncate(path)
}

async function endProcess(pid: number, isAlive: () => Promise<boolean>): Promise<void> {
  for (const [signal, limit] of [
    ['SIGINT', fastStopMs],
    ['SIGQUIT', immediateStopMs],
  ] as const) {
    if (!(await isAlive())) return
    sendSignal(pid, signal)
    const deadline = performance.now() + limit
    while (performance.now() < deadline) {
      if (!(await isAlive())) return
      await delay(pollMs)
    }
  }
  throw new Error(`PostgreSQL (process ${pid}) does not stop`)
}

/** A program of util-linux that sets limits for itself and then executes another one; Node cannot set them. */
const prlimit = '/usr/bin/prlimit'

/**
 * Returns the words that precede the command, so that the limit holds for it and all its children. RLIMIT_DATA counts
 * only private memory (getrlimit(2)); above it `malloc` fails, and PostgreSQL reports an error for that statement.
 * Returns nothing where the program is missing, as on macOS.
 */
async function memoryLimit({ processMemory }: ClusterAccess): Promise<string[]> {
  if (processMemory === null) return []
  const found = await access(prlimit, constants.X_OK).then(
    () => true,
    () => false,
  )
  return found ? [prlimit, `--data=${processMemory}`, '--'] : []
}

async function readFrom(path: string, position: number): Promise<string> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const buffer = Buffer.alloc(Math.max(0, Math.min(size - position, 64 * 1024)))
    const { bytesRead } = await file.read(buffer, 0, buffer.length, Math.max(position, size - buffer.length))
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** PostgreSQL creates and writes the file at once. One that stays empty this long was left by a full disk. */
const emptyFileGraceMs = 2000

/** Parses the lines of `postmaster.pid` (PostgreSQL's pidfile.h). Returns null when there is no pid. */
export function parsePostmasterPid(text: string): PostmasterLock | null {
  const lines = text.split('\n')
  // A standalone backend writes its pid negated.
  const pid = Math.abs(Number(lines[0]))
  if (!Number.isInteger(pid) || pid === 0) return null
  return { pid, port: Number(lines[3] ?? 0) || 0, socketDirectory: lines[4] ?? '', status: (lines[7] ?? '').trim() }
}

/**
 * True for a living PostgreSQL on `directory`, a real path. A server process stays in its cluster's folder; where the
 * system does not report that, the command line has it after `-D`. With neither, any PostgreSQL counts: breaking a
 * valid lock is worse than keeping a stale one.
 */
export function holdsDirectory(info: ProcessInfo, directory: string): boolean {
  if (info.command !== 'postgres') return false
  if (info.directory !== null) return info.directory === directory
  return !info.commandLine.includes(' -D ') || `${info.commandLine} `.includes(` -D ${directory} `)
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

async function isPostmaster(pid: number, directory: string): Promise<boolean> {
  const info = await inspectProcess(pid)
  if (info === null) return false
  const real = await realpath(directory).catch(() => directory)
  return holdsDirectory(info, real)
}

function clusterLock(directory: string): string {
  return join(directory, 'postmaster.pid')
}

/** Opens the log for appending. A log above the limit is renamed to `<file>.1` first, over its predecessor. */
async function openLog(path: string): Promise<FileHandle> {
  const file = await open(path, 'a', 0o600)
  if ((await file.stat()).size <= limitBytes) return file
  await file.close()
  await rename(path, `${path}.1`)
  return open(path, 'a', 0o600)
}
