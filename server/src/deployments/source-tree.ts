import { constants } from 'node:fs'
import { open, readdir, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'

/** What planning a build needs to know of the files of a release. */
export interface SourceTree {
  /** Whether the tree holds this path: names at its top, and `index.html` in the folders that a static site may use. */
  has(path: string): boolean
  /** The text of a file that decides the plan; `undefined` when it is missing, no plain file, or too large. */
  read(path: string): string | undefined
}

/** The folders besides the top that a finished static site may lie in. */
export const SITE_FOLDERS = ['public', 'dist'] as const

const READ = ['package.json', 'Procfile', '.npmrc']
/** More than any real package.json. */
export const LARGEST_FILE = 1024 * 1024

/** Collects the description of the tree in `directory`. Symbolic links that lead out of the tree are not followed. */
export async function readSourceTree(directory: string): Promise<SourceTree> {
  const root = await realpath(directory)
  const paths = new Set(await readdir(root))
  for (const folder of SITE_FOLDERS) {
    const index = `${folder}/index.html`
    if (paths.has(folder) && (await resolveWithin(root, index)) !== null) paths.add(index)
  }
  const texts = new Map<string, string>()
  for (const name of READ) {
    const text = paths.has(name) ? await readWithin(root, name) : undefined
    if (text !== undefined) texts.set(name, text)
  }
  return { has: (path) => paths.has(path), read: (path) => texts.get(path) }
}

async function resolveWithin(root: string, path: string): Promise<string | null> {
  const target = await realpath(join(root, path)).catch(() => null)
  return target?.startsWith(root + sep) ? target : null
}

async function readWithin(root: string, path: string): Promise<string | undefined> {
  const target = await resolveWithin(root, path)
  if (target === null) return undefined
  // Not blocking, because a FIFO would wait for a writer.
  const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return undefined
  try {
    const stats = await file.stat()
    return stats.isFile() && stats.size <= LARGEST_FILE ? await file.readFile('utf8') : undefined
  } finally {
    await file.close()
  }
}
