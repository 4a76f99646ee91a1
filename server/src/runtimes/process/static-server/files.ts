import { constants } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'

export interface FoundFile {
  readonly file: FileHandle
  readonly path: string
  readonly size: number
  readonly modified: Date
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

/** Returns `null` when there is no such file, or a symbolic link leads out of the folder or to a hidden name. */
export async function openFile(root: string, path: string): Promise<FoundFile | null> {
  const actual = await realpath(path).catch(() => null)
  if (actual === null || !actual.startsWith(root + sep) || relative(root, actual).split(sep).some(isHidden)) return null
  // Non-blocking, because opening a FIFO would wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(actual, flags).catch(() => null)
  if (file === null) return null
  const stats = await file.stat()
  if (stats.isFile()) return { file, path: actual, size: stats.size, modified: stats.mtime }
  await file.close()
  return null
}

/** True for names with a leading dot, which are private, `..` among them. RFC 8615 makes one exception. */
function isHidden(segment: string): boolean {
  return segment.startsWith('.') && segment !== '.well-known'
}
