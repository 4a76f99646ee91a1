import { lstat, readFile, realpath } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { loadClientSettings } from '../platform/config/client.ts'
import { loadConfig } from '../platform/config.ts'
import { controlsOf } from '../platform/control/client.ts'
import { dataDirectoryAt } from '../platform/data-directory.ts'
import { exists } from '../platform/files.ts'
import { ownRoot } from '../platform/package-files.ts'
import { findHolder } from '../platform/postgres/postmaster.ts'
import { installedSettings, serverUnitName } from '../platform/service-manager/units.ts'
import { CommandError } from './client/command-error.ts'

/**
 * Returns the data directory for a command: from the option, the environment, the directory in use on this machine, or
 * the default. A directory in use in the current folder takes precedence over other directories. Prints the choice,
 * unless the option or the environment names the directory.
 *
 * @throws CommandError when several directories outside the current folder are in use
 */
export async function chosenDirectory(given: string | undefined): Promise<string> {
  const { dataDirectory } = loadConfig({ dataDir: given })
  if (given !== undefined || loadClientSettings().hasDataDirectory) return dataDirectory
  const inUse = await directoriesInUse()
  const [first, ...others] = inUse
  if (first === undefined) return say(dataDirectory, 'the default')
  if (inUse.includes(dataDirectory)) return say(dataDirectory, 'in use in this folder')
  if (others.length === 0) {
    const isOthers = (await lstat(first)).uid !== process.getuid?.() && (await hasStarted(dataDirectory))
    return isOthers ? say(dataDirectory, 'the default') : say(first, 'the directory in use on this machine')
  }
  const named = inUse.map((folder) => `\n  --data-dir ${folder}`).join('')
  throw new CommandError(`Several data directories are in use on this machine. Name one:${named}`)
}

/** True for a directory in which this user has already started a server. */
const hasStarted = (folder: string): Promise<boolean> => exists(dataDirectoryAt(folder).cluster)

function say(dataDirectory: string, why: string): string {
  process.stderr.write(`fairlead: using the data directory ${dataDirectory} (${why})\n`)
  return dataDirectory
}

/** Returns the default data directories of this machine. The directory in the current folder comes first. */
async function usualDirectories(): Promise<string[]> {
  const service = await installedSettings(serverUnitName).catch(() => undefined)
  const folders = [resolve('.fairlead'), join(dirname(ownRoot), '.fairlead'), '/var/lib/fairlead']
  return [...new Set([...folders, ...(service == null ? [] : [service.dataDirectory])])]
}

/**
 * Returns the data directories in use on this machine, in which a server or PostgreSQL (after the server's end) runs.
 */
export async function directoriesInUse(): Promise<string[]> {
  const bound = await directoriesOfSockets()
  const usual = await Promise.all(
    (await usualDirectories()).map(async (folder) =>
      (await isBound(bound, folder)) || (await isInUse(folder)) ? [folder] : [],
    ),
  )
  const others = await Promise.all(
    bound.map(async ([folder, socket]) => ((await isOurs(folder, socket)) ? [folder] : [])),
  )
  return [...new Set([...usual, ...others].flat())]
}

async function isInUse(folder: string): Promise<boolean> {
  const { run, cluster } = dataDirectoryAt(folder)
  if ((await controlsOf(run).catch(() => [])).length > 0) return true
  const holder = await findHolder(await realpath(cluster).catch(() => cluster)).catch(() => null)
  return holder?.state === 'running'
}

/**
 * Matches sockets of a server and its PostgreSQL in a data directory. A directory with a long path has its sockets
 * elsewhere.
 */
const socketForm = /^(\/.*)\/(?:run\/\d+-[0-9a-f]{8}\.sock|postgres\/socket\/\.s\.PGSQL\.5432)$/

/**
 * Returns the folders in which processes listen as in a data directory, each with a socket. Every user may list sockets
 * (proc(5)).
 */
async function directoriesOfSockets(): Promise<[folder: string, socket: string][]> {
  const text = await readFile('/proc/net/unix', 'utf8').catch(() => '')
  return text.split('\n').flatMap((line): [string, string][] => {
    // Only listening sockets have this flag.
    const path = /^(?:\S+ +){3}00010000 (?:\S+ +){3}(\/.*)$/.exec(line)?.[1] ?? ''
    const folder = socketForm.exec(path)?.[1]
    return folder === undefined ? [] : [[folder, path]]
  })
}

/** True when a process listens in a folder. False for folders of other users that this user cannot read. */
async function isBound(
  bound: readonly (readonly [folder: string, socket: string])[],
  folder: string,
): Promise<boolean> {
  const sockets = bound.filter(([one]) => one === folder).map(([, socket]) => socket)
  const found = await Promise.all(
    sockets.map((socket) =>
      lstat(socket).then(
        (info) => info.isSocket(),
        ({ code }: NodeJS.ErrnoException) => code === 'EACCES',
      ),
    ),
  )
  return found.includes(true)
}

/**
 * True when a server of this user listens, or when only this user and root can change the directory and all its
 * parents. Elsewhere, another user could listen and attract our commands.
 */
async function isOurs(folder: string, socket: string): Promise<boolean> {
  const found = await lstat(socket).catch(() => null)
  if (found?.isSocket() !== true || (await realpath(socket).catch(() => null)) !== socket) return false
  return found.uid === process.getuid?.() || (await isSafe(folder))
}

async function isSafe(folder: string): Promise<boolean> {
  const sticky = 0o1000
  for (let path = folder; ; path = dirname(path)) {
    const { uid, mode } = await lstat(path)
    const isWritable = (mode & 0o022) !== 0
    if (![0, process.getuid?.()].includes(uid)) return false
    // In a sticky folder such as /tmp, other users cannot replace our entries.
    if (isWritable && (path === folder || (mode & sticky) === 0)) return false
    if (path === dirname(path)) return true
  }
}
