import { randomBytes } from 'node:crypto'
import { lchown, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { syncDirectory } from '../files.ts'
import { startProcess } from '../processes.ts'
import { lastLines } from '../programs.ts'
import { assertReachable } from '../reachable-files.ts'
import type { OsUser } from '../users.ts'
import { type Binaries, majorVersion, reachableBinaries } from './binaries.ts'

/** The superuser of every embedded cluster, and the platform's own database. */
export const clusterUser = 'fairlead'

/**
 * `initdb` requires an account for its user id, which private ids do not have. `nobody` has one everywhere; afterwards
 * the cluster goes to its owner.
 */
const nobody: OsUser = { uid: 65_534, gid: 65_534 }
const initdbDeadlineMs = 120_000

/**
 * Returns the arguments for `initdb` besides the folder. Sorting and case mapping come from PostgreSQL itself (provider
 * `builtin`, and before version 17 plain `C` for sorting), so that an upgrade of the system's C library can never
 * corrupt an index. Character classes still come from the system's locale, whose name differs between systems. The
 * settings go to postgresql.conf, where the operator may change them; version 15 has no option for that.
 */
export function initdbArguments(platform: string, major: number): string[] {
  const settings = {
    max_connections: '100',
    shared_buffers: '32MB',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_checkpoints: 'off',
  }
  return [
    `--username=${clusterUser}`,
    '--encoding=UTF8',
    ...(major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : []),
    '--locale=C',
    `--lc-ctype=${platform === 'darwin' ? 'en_US.UTF-8' : 'C.UTF-8'}`,
    // Trust is enough: only this user and root can enter the folder of the only socket.
    '--auth-local=trust',
    '--auth-host=reject',
    '--no-instructions',
    ...(major >= 16 ? Object.entries(settings).map(([name, value]) => `--set=${name}=${value}`) : []),
  ]
}

/**
 * Returns `usable` when `directory` holds a cluster that these binaries and this user can run, and `missing` when it is
 * empty or does not exist. Rejects with an error that says what to do for another version, owner or content.
 */
export async function examineCluster(options: {
  readonly directory: string
  readonly version: string
  readonly user: OsUser | null
}): Promise<'usable' | 'missing'> {
  const { directory } = options
  const found = await optional(readFile(join(directory, 'PG_VERSION'), 'utf8'))
  if (found === null) {
    const content = await optional(readdir(directory))
    if (content === null || content.length === 0) return 'missing'
    throw new Error(
      `${directory} holds files, but no PostgreSQL cluster. Move them away, or choose another --data-dir.`,
    )
  }
  const major = majorVersion(options.version)
  if (found.trim() !== String(major)) {
    throw new Error(
      `The data in ${directory} was made by PostgreSQL ${found.trim()}, and this release brings PostgreSQL ${major}. ` +
        'Start the release that made it and dump the databases (pg_dumpall), then load them into a new data ' +
        'directory; or run that data on your PostgreSQL server and set DATABASE_URL.',
    )
  }
  const owner = (await stat(directory)).uid
  const expected = options.user?.uid ?? process.getuid?.()
  if (owner !== expected) {
    throw new Error(
      `The data in ${directory} belongs to user id ${owner}, but PostgreSQL is to run as user id ${expected}. ` +
        `Start as the user that made it, or run: chown -R ${expected} ${directory}`,
    )
  }
  return 'usable'
}

/**
 * Creates the cluster under a temporary name beside `directory` and renames it, so that it is complete or not there at
 * all. Removes the remains of earlier attempts. The caller must hold the start lock.
 */
export async function initialise(options: {
  readonly directory: string
  readonly binaries: Binaries
  readonly runtimeDirectory: string
  readonly user: OsUser | null
  readonly logger: Pick<Logger, 'info' | 'warn'>
  readonly signal: AbortSignal
}): Promise<void> {
  const { directory, binaries, user, signal, logger } = options
  const parent = dirname(directory)
  const prefix = `.${basename(directory)}.initdb-`
  for (const name of await readdir(parent)) {
    if (name.startsWith(prefix)) await removeTree(join(parent, name), logger)
  }
  logger.info({ directory }, 'Creating the PostgreSQL cluster')
  const maker = user === null ? null : nobody
  await assertReachable(parent, maker)
  const native = await reachableBinaries({ binaries, copyTo: options.runtimeDirectory, user: maker })
  const initdb = join(native, 'bin', 'initdb')
  const temporary = join(parent, prefix + randomBytes(6).toString('hex'))
  const run = async (args: readonly string[], as: OsUser | null) => {
    const { code, output } = await runProgram({
      command: initdb,
      arguments: ['-D', temporary, ...args],
      user: as,
      signal,
      deadlineMs: initdbDeadlineMs,
    })
    if (code === 0) return
    const remedy = output.includes('could not look up effective user ID')
      ? '\nRun the server as a user with an account on this system, or as root, or set DATABASE_URL.'
      : ''
    throw new Error(`The PostgreSQL cluster could not be created in ${parent}:\n${lastLines(output)}${remedy}`)
  }
  try {
    await mkdir(temporary, { mode: 0o700 })
    if (maker !== null) await lchown(temporary, maker.uid, maker.gid)
    await run([...initdbArguments(process.platform, majorVersion(binaries.version)), '--no-sync'], maker)
    if (user !== null) await handOver(temporary, user)
    // Comes after the change of owner, so that the change is also written to the disk.
    await run(['--sync-only'], user)
    await rename(temporary, directory)
    await syncDirectory(parent)
  } catch (error) {
    await removeTree(temporary, logger)
    throw error
  }
}

/** Gives a tree to `user`, from the top down, so that the former owner is locked out from the first step on. */
async function handOver(path: string, user: OsUser): Promise<void> {
  await lchown(path, user.uid, user.gid)
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const child = join(path, entry.name)
    if (entry.isDirectory()) await handOver(child, user)
    else await lchown(child, user.uid, user.gid)
  }
}

/** Retries, because an `initdb` whose server was killed may still be writing. The next attempt removes the rest. */
async function removeTree(path: string, logger: Pick<Logger, 'warn'>): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }).catch((error) => {
    logger.warn({ err: error, path }, 'An unfinished PostgreSQL cluster could not be removed')
  })
}

async function optional<T>(reading: Promise<T>): Promise<T | null> {
  return reading.catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
}

/**
 * Runs a program to its end, as `user` and with no environment but the C locale, and returns its exit code and output.
 * Rejects when it cannot be started, when the signal aborts, or at the deadline.
 */
async function runProgram(options: {
  readonly command: string
  readonly arguments: readonly string[]
  readonly user: OsUser | null
  readonly signal: AbortSignal
  readonly deadlineMs: number
}): Promise<{ readonly code: number | null; readonly output: string }> {
  options.signal.throwIfAborted()
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(options.deadlineMs)])
  const child = startProcess(options.command, options.arguments, {
    ...(options.user ?? {}),
    cwd: '/',
    env: { LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once('error', (error) =>
    reject(new Error(`${options.command} cannot be run: ${error.message}`, { cause: error })),
  )
  child.once('close', resolve)
  const stop = () => child.kill('SIGTERM')
  signal.addEventListener('abort', stop)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  }
  try {
    const code = await promise
    options.signal.throwIfAborted()
    if (signal.aborted) throw new Error(`${options.command} was not done after ${options.deadlineMs / 1000} s`)
    return { code, output }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
