import { randomBytes } from 'node:crypto'
import { lstatSync, readdirSync, realpathSync } from 'node:fs'
import {
  chmod,
  copyFile,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OsUser } from './users.ts'

const read = 4
const enter = 1
const leftoverAgeMs = 60 * 60 * 1000
/** The longest time from the creation of a folder to the change of its mode. */
const openingMs = 1000

interface Permissions {
  readonly uid: number
  readonly gid: number
  readonly mode: number
}

/**
 * True when the file mode gives `user` all of `bits` (read 4, write 2, execute or enter 1). Exactly one class applies:
 * owner, else group, else others. Supplementary groups are ignored, because child processes are started without any.
 */
export function mayAccess({ uid, gid, mode }: Permissions, user: OsUser, bits: number): boolean {
  if (user.uid === 0) return true
  const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0
  return ((mode >> shift) & bits) === bits
}

/**
 * Resolves to true when `user` can read the file or the whole tree at the real path of `path`: can enter every parent
 * folder, read every file, and execute every executable. Always true for `null`, the user of the server.
 * Rejects when `path` does not exist.
 */
export async function isReachable(path: string, user: OsUser | null): Promise<boolean> {
  if (user === null) return true
  const root = await realpath(path)
  if ((await firstClosedFolder(dirname(root), user)) !== null) return false

  const outside: string[] = []
  // Thousands of asynchronous calls would take a tenth of a server's start.
  const isReadable = (entry: string): boolean => {
    const info = lstatSync(entry)
    if (info.isSymbolicLink()) {
      const target = targetOf(entry)
      if (target !== null && target !== root && !target.startsWith(root + sep)) outside.push(target)
      return true
    }
    if (!info.isDirectory()) return mayAccess(info, user, (info.mode & 0o111) === 0 ? read : read | enter)
    return mayAccess(info, user, read | enter) && readdirSync(entry).every((name) => isReadable(join(entry, name)))
  }
  if (!isReadable(root)) return false
  for (const target of outside) if (!(await isReachable(target, user))) return false
  return true
}

/** Returns the real path behind a symbolic link; `null` for a link that leads nowhere. */
function targetOf(link: string): string | null {
  try {
    return realpathSync(link)
  } catch {
    return null
  }
}

/**
 * Checks that `user` can enter `directory`, or the deepest folder above it that exists already.
 * Rejects with an error that names the folder that cannot be entered, and suggests another place.
 */
export async function assertReachable(directory: string, user: OsUser | null): Promise<void> {
  if (user === null) return
  const existing = await deepestExisting(directory)
  // A file in the place of a folder is reported later, when the folder is made.
  const folder = (await stat(existing)).isDirectory() ? existing : dirname(existing)
  const closed = await lastingClosedFolder(await realpath(folder), user)
  if (closed === null) return
  throw new Error(
    `${directory} must be reachable for user id ${user.uid}, but the folder ${closed} does not let that user in. ` +
      `Choose a data directory elsewhere (--data-dir, for example /var/lib/fairlead).`,
  )
}

/** Creates a folder and its missing parents with mode 0711 under any umask, so that other users may pass through. */
export async function makePassableDirectory(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o711 })
  if (first === undefined) return
  for (let folder = path; folder.length >= first.length; folder = dirname(folder)) await chmod(folder, 0o711)
}

/**
 * Returns a path with the content of `source` (a file or a tree) that `user` can read and execute: the real path of the
 * source where possible, otherwise the copy at `copyTo`. Makes the copy if it does not exist yet.
 * The name of `copyTo` must identify the content (by version or hash), because an existing copy is reused unchanged.
 */
export async function reachableCopy(options: {
  readonly source: string
  readonly copyTo: string
  readonly user: OsUser | null
}): Promise<string> {
  const source = await realpath(options.source)
  if (await isReachable(source, options.user)) return source
  await copyOnce({ ...options, source })
  await assertReachable(dirname(options.copyTo), options.user)
  return options.copyTo
}

/**
 * Copies a file or a tree to `copyTo` unless `copyTo` exists. Everybody can read the copy. It appears complete or not
 * at all: it is made under a temporary name, flushed to the disk, completed by `finish`, and renamed.
 */
export async function copyOnce(options: {
  readonly source: string
  readonly copyTo: string
  readonly finish?: (copy: string) => Promise<void>
  /** False copies each file, and never makes a hard link. */
  readonly mayLink?: boolean
}): Promise<void> {
  const { source, copyTo, finish, mayLink = true } = options
  if (await exists(copyTo)) return
  await makePassableDirectory(dirname(copyTo))
  await removeLeftovers(copyTo)
  const temporary = `${copyTo}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await copyTree(source, temporary, mayLink)
    await finish?.(temporary)
    await rename(temporary, copyTo)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true })
    // A rename never replaces a folder with content, so another process was faster.
    if (!(await exists(copyTo))) throw error
  }
}

/**
 * Copies a tree so that everybody can read it and execute its executables, and flushes it to the disk.
 * Files that everybody may read already are hard-linked where that is allowed, which takes neither time nor space.
 */
async function copyTree(source: string, target: string, mayLink: boolean): Promise<void> {
  const info = await lstat(source)
  if (info.isSymbolicLink()) return symlink(await readlink(source), target)
  const executable = info.isDirectory() || (info.mode & 0o111) !== 0
  const mode = executable ? 0o755 : 0o644
  if (info.isDirectory()) {
    await mkdir(target)
    for (const name of await readdir(source)) await copyTree(join(source, name), join(target, name), mayLink)
  } else {
    if (mayLink && (info.mode & mode) === mode && (await linked(source, target))) return
    await copyFile(source, target)
  }
  const copy = await open(target, 'r')
  try {
    await copy.chmod(mode)
    await copy.sync()
  } finally {
    await copy.close()
  }
}

/**
 * Resolves to false when no link is possible: across file systems, without support for links, or for other users'
 * files.
 */
async function linked(source: string, target: string): Promise<boolean> {
  return link(source, target).then(
    () => true,
    () => false,
  )
}

/** Removes copies that a crash left incomplete. Younger copies may still be in progress in another process. */
async function removeLeftovers(copyTo: string): Promise<void> {
  const folder = dirname(copyTo)
  const names = (await readdir(folder)).filter(
    (name) => name.startsWith(`${basename(copyTo)}.`) && name.endsWith('.tmp'),
  )
  for (const name of names) {
    const path = join(folder, name)
    const info = await lstat(path).catch(() => null)
    if (info !== null && Date.now() - info.ctimeMs > leftoverAgeMs) await rm(path, { recursive: true, force: true })
  }
}

/** Like `firstClosedFolder`, but gives another starting server a moment to open a folder that it has just made. */
async function lastingClosedFolder(folder: string, user: OsUser): Promise<string | null> {
  for (;;) {
    const closed = await firstClosedFolder(folder, user)
    if (closed === null) return null
    const { ctimeMs } = await stat(closed)
    if (Math.abs(Date.now() - ctimeMs) > openingMs) return closed
    await sleep(openingMs / 20)
  }
}

/** Returns the outermost folder on the path to `folder` (a real path, itself included) that `user` cannot enter. */
async function firstClosedFolder(folder: string, user: OsUser): Promise<string | null> {
  const parent = dirname(folder)
  if (parent !== folder) {
    const closed = await firstClosedFolder(parent, user)
    if (closed !== null) return closed
  }
  return mayAccess(await stat(folder), user, enter) ? null : folder
}

async function deepestExisting(path: string): Promise<string> {
  return (await exists(path)) ? path : deepestExisting(dirname(path))
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return false
      throw error
    },
  )
}
