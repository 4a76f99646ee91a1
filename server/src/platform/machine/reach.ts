import { randomBytes } from 'node:crypto'
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
import type { OsUser } from '../users.ts'

const read = 4
const enter = 1
const leftoverAge = 60 * 60 * 1000

interface Permissions {
  readonly uid: number
  readonly gid: number
  readonly mode: number
}

/**
 * Whether the file mode gives `user` all of `bits` (read 4, write 2, execute or enter 1). Exactly one class counts:
 * owner, else group, else others. Supplementary groups do not count, because children are started without any.
 */
export function mayAccess({ uid, gid, mode }: Permissions, user: OsUser, bits: number): boolean {
  if (user.uid === 0) return true
  const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0
  return ((mode >> shift) & bits) === bits
}

/**
 * Whether `user` can read the file or the whole tree at the real path of `path`: every parent folder can be entered,
 * every file read, every executable executed. `null`, the server's own user, reads what the server reads.
 * Rejects when `path` does not exist.
 */
export async function isReachable(path: string, user: OsUser | null): Promise<boolean> {
  if (user === null) return true
  const root = await realpath(path)
  if ((await firstClosedFolder(dirname(root), user)) !== null) return false

  async function isReadable(entry: string): Promise<boolean> {
    const info = await lstat(entry)
    if (info.isSymbolicLink()) {
      const target = await realpath(entry).catch(() => null)
      const inside = target === null || target === root || target.startsWith(root + sep)
      return inside || isReachable(target, user)
    }
    if (!info.isDirectory()) return mayAccess(info, user as OsUser, (info.mode & 0o111) === 0 ? read : read | enter)
    if (!mayAccess(info, user as OsUser, read | enter)) return false
    const names = await readdir(entry)
    const children = await Promise.all(names.map((name) => isReadable(join(entry, name))))
    return children.every((readable) => readable)
  }
  return isReadable(root)
}

/**
 * Makes sure that `user` can get into `directory`, or into the deepest folder above it that exists already.
 * Raises an error that names the closed folder and both remedies.
 */
export async function assertReachable(directory: string, user: OsUser | null): Promise<void> {
  if (user === null) return
  const existing = await deepestExisting(directory)
  // A file in the way is for whoever makes the folder to report.
  const folder = (await stat(existing)).isDirectory() ? existing : dirname(existing)
  const closed = await firstClosedFolder(await realpath(folder), user)
  if (closed === null) return
  throw new Error(
    `${directory} must be reachable for user id ${user.uid}, but the folder ${closed} does not let that user in. ` +
      `Choose a data directory elsewhere (--data-dir, for example /var/lib/fairlead) or run: chmod o+x ${closed}`,
  )
}

/** Makes a folder and its missing parents so that other users may pass through (0711), whatever the umask says. */
export async function makePassableDirectory(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o711 })
  if (first === undefined) return
  for (let folder = path; folder.length >= first.length; folder = dirname(folder)) await chmod(folder, 0o711)
}

/**
 * Returns a path with the content of `source` (a file or a tree) that `user` can read and execute: the real path of
 * the source itself where possible, otherwise the copy at `copyTo`, which is made when it does not exist yet.
 * `copyTo` must name the content (by version or hash), because an existing copy is reused as it is.
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
 * Copies a file or a tree to `copyTo` unless it exists, readable for everybody. The copy appears complete or not at
 * all: it is made under a temporary name, written through to the disk, completed by `finish`, and renamed.
 */
export async function copyOnce(options: {
  readonly source: string
  readonly copyTo: string
  readonly finish?: (copy: string) => Promise<void>
}): Promise<void> {
  const { source, copyTo, finish } = options
  if (await exists(copyTo)) return
  await makePassableDirectory(dirname(copyTo))
  await removeLeftovers(copyTo)
  const temporary = `${copyTo}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await copyTree(source, temporary)
    await finish?.(temporary)
    await rename(temporary, copyTo)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true })
    // Another process was faster: a rename never replaces a folder that has content.
    if (!(await exists(copyTo))) throw error
  }
}

/**
 * Readable for everybody, executable where the original was, and on the disk before the rename that announces it.
 * Files that everybody may read already are linked, which takes neither time nor space.
 */
async function copyTree(source: string, target: string): Promise<void> {
  const info = await lstat(source)
  if (info.isSymbolicLink()) return symlink(await readlink(source), target)
  const executable = info.isDirectory() || (info.mode & 0o111) !== 0
  const mode = executable ? 0o755 : 0o644
  if (info.isDirectory()) {
    await mkdir(target)
    for (const name of await readdir(source)) await copyTree(join(source, name), join(target, name))
  } else {
    if ((info.mode & mode) === mode && (await linked(source, target))) return
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

/** False where there can be no link: another file system, or one without them, or a file of somebody else. */
async function linked(source: string, target: string): Promise<boolean> {
  return link(source, target).then(
    () => true,
    () => false,
  )
}

/** Copies that a crash cut short. Younger ones may be in the making by another process. */
async function removeLeftovers(copyTo: string): Promise<void> {
  const folder = dirname(copyTo)
  const names = (await readdir(folder)).filter(
    (name) => name.startsWith(`${basename(copyTo)}.`) && name.endsWith('.tmp'),
  )
  for (const name of names) {
    const path = join(folder, name)
    const info = await lstat(path).catch(() => null)
    if (info !== null && Date.now() - info.ctimeMs > leftoverAge) await rm(path, { recursive: true, force: true })
  }
}

/** The outermost folder on the way to and including `folder`, a real path, that `user` cannot enter. */
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
