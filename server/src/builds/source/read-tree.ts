import { constants } from 'node:fs'
import { open, readdir, realpath, stat } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
import { readSettings } from './fairlead-json.ts'
import { LARGEST_FILE, SITE_FOLDERS, type SourceTree } from './tree.ts'

/** A lock file may be very large, and its first lines tell its format. */
const isLockFile = (name: string): boolean => name.endsWith('.lock')
const lockFileBytes = 4096

/**
 * Reads the description of the tree in `directory`. Symbolic links that lead out of the tree are not followed.
 *
 * @param names the files that detectors read; `fairlead.json` is always read
 */
export async function readSourceTree(directory: string, names: readonly string[]): Promise<SourceTree> {
  const root = await realpath(directory)
  const paths = new Set<string>()
  const texts = new Map<string, string>()
  const tree: SourceTree = { has: (path) => paths.has(path), read: (path) => texts.get(path) }

  const readFolder = async (folder: string): Promise<void> => {
    const inFolder = (name: string) => (folder === '.' ? name : `${folder}/${name}`)
    const found = new Set(await readdir(join(root, folder)))
    for (const name of found) paths.add(inFolder(name))
    for (const site of SITE_FOLDERS) {
      const index = inFolder(`${site}/index.html`)
      if (found.has(site) && (await resolveWithin(root, index)) !== null) paths.add(index)
    }
    for (const name of new Set(['fairlead.json', ...names])) {
      const text = found.has(name) ? await readWithin(root, inFolder(name)) : undefined
      if (text !== undefined) texts.set(inFolder(name), text)
    }
  }
  await readFolder('.')
  const settings = readSettings(tree)
  const folder = settings.ok ? settings.value.root : '.'
  paths.delete(folder)
  if (folder !== '.' && (await isFolderWithin(root, folder))) {
    paths.add(folder)
    await readFolder(folder)
  }
  return tree
}

async function isFolderWithin(root: string, path: string): Promise<boolean> {
  const target = await resolveWithin(root, path)
  return target !== null && (await stat(target)).isDirectory()
}

async function resolveWithin(root: string, path: string): Promise<string | null> {
  const target = await realpath(join(root, path)).catch(() => null)
  return target?.startsWith(root + sep) ? target : null
}

async function readWithin(root: string, path: string): Promise<string | undefined> {
  const target = await resolveWithin(root, path)
  if (target === null) return undefined
  // Non-blocking, because a FIFO would wait for a writer.
  const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return undefined
  try {
    const stats = await file.stat()
    if (!stats.isFile()) return undefined
    if (isLockFile(basename(path))) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(lockFileBytes), 0, lockFileBytes, 0)
      return buffer.toString('utf8', 0, bytesRead)
    }
    return stats.size <= LARGEST_FILE ? await file.readFile('utf8') : undefined
  } finally {
    await file.close()
  }
}
