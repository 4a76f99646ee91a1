import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'

export interface FoundFile {
  readonly file: FileHandle
  readonly path: string
  readonly size: number
  /**
   * A strong ETag, with its quotes. No other file has both the inode and the time of its last change, so that it names the
   * content over all releases. The time of modification does not: package managers and builds set it.
   */
  readonly etag: string
  /** The time of the last change, as it is put into `Last-Modified`. */
  readonly changed: Date
}

/** Decodes the segments of a path. Returns `null` when it is malformed. */
export function parsePath(path: string): string[] | null {
  try {
    const segments = path.split('/').filter(Boolean).map(decodeURIComponent)
    return segments.some((segment) => segment.includes('/') || segment.includes('\0')) ? null : segments
  } catch {
    return null
  }
}

/**
 * Finds the file for a path: the file itself, the index of a folder, or the page whose ending is left out. Returns
 * `folder` for a folder whose path has no slash at the end.
 *
 * @param root the real path of the served folder
 */
export async function findFile(
  root: string,
  segments: readonly string[],
  isFolder: boolean,
): Promise<FoundFile | 'folder' | null> {
  if (segments.some(isHidden)) return null
  const path = join(root, ...segments)
  if (isFolder || segments.length === 0) return openFile(root, join(path, 'index.html'))
  const file = (await openFile(root, path)) ?? (await openFile(root, `${path}.html`))
  if (file !== null) return file
  const index = await openFile(root, join(path, 'index.html'))
  await index?.file.close()
  return index === null ? null : 'folder'
}

/** The errors of paths that lead to no file. All others, such as a lack of descriptors, say nothing about the site. */
const notThere: ReadonlySet<unknown> = new Set([
  'ENOENT',
  'ENOTDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'EACCES',
  'EPERM',
  'ENXIO',
])

/**
 * Returns `null` when there is no such file, or a symbolic link leads out of the folder or to a hidden name. The app may
 * exchange files and folders for links at any time, so that the file is examined once more after it was opened.
 */
export async function openFile(root: string, path: string): Promise<FoundFile | null> {
  const actual = await orNull(realpath(path))
  if (actual === null || !actual.startsWith(root + sep) || relative(root, actual).split(sep).some(isHidden)) return null
  // Non-blocking, because opening a FIFO would wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await orNull(open(actual, flags))
  if (file === null) return null
  try {
    const stats = await file.stat()
    if (stats.isFile() && (await isAt(file, actual)) && (await isOwn(root, stats))) {
      return { file, path: actual, size: stats.size, etag: etagOf(stats), changed: stats.ctime }
    }
  } catch (error) {
    await file.close()
    throw error
  }
  await file.close()
  return null
}

function etagOf({ ino, size, ctimeMs }: Stats): string {
  return `"${[ino, size, Math.round(ctimeMs * 1000)].map((part) => part.toString(36)).join('-')}"`
}

/** False when a folder of the path was exchanged for a link while the file was opened. */
async function isAt(file: FileHandle, path: string): Promise<boolean> {
  const actual = await readlink(`/proc/self/fd/${file.fd}`).catch((error: NodeJS.ErrnoException) => {
    // Systems without /proc do not tell.
    if (error.code === 'ENOENT') return path
    throw error
  })
  return actual === path
}

/** A file with several names may have one outside of the site; it must be of the site's owner, as all that a build makes. */
async function isOwn(root: string, { nlink, uid }: Stats): Promise<boolean> {
  return nlink === 1 || uid === (await lstat(root)).uid
}

async function orNull<T>(work: Promise<T>): Promise<T | null> {
  return work.catch((error: NodeJS.ErrnoException) => {
    if (notThere.has(error.code)) return null
    throw error
  })
}

/** True for names with a leading dot, which are private, `..` among them. RFC 8615 makes one exception. */
export function isHidden(segment: string): boolean {
  return segment.startsWith('.') && segment !== '.well-known'
}
