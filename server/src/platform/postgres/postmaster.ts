import { access, constants, open } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { sendSignal, startProcess } from '../processes.ts'
import type { OsUser } from '../users.ts'
import { type ClusterAccess, hbaFile, privateAccess } from './access.ts'
import { findHolder, isPostmaster } from './lock-file.ts'
import { openLog } from './log-file.ts'

const pollMs = 20
const fastStopMs = 10_000
const immediateStopMs = 10_000

export type StartOutcome =
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
