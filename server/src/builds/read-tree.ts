import { constants } from 'node:fs'
import { open, readdir, realpath, stat } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
import { readSettings } from './fairlead-json.ts'
import { LARGEST_FILE, SITE_FOLDERS, type SourceTree } from './tree.ts'

/** A lock file may be very large, and its beginning suffices. */
const isLockFile = (name: string): boolean => name.endsWith('.lock') || name === 'pnpm-lock.yaml'

/** No repository may keep the server busy. Names beyond the limit are unknown. */
const mostNames = 20_000
const largeFolder = 1_000
const deepest = 4
const mostMatches = 64
const mostBytes = 16 * LARGEST_FILE
/** Installed packages and build output. */
const unlisted: ReadonlySet<string> = new Set([
  '.git',
  '.venv',
  '__pycache__',
  '_build',
  'deps',
  'node_modules',
  'target',
  'vendor',
  'venv',
])

/**
 * Reads the description of the tree in `directory`. Does not follow symbolic links out of the tree.
 *
 * @param names the files that detectors read, from the top and from the app's folder; a `*` stands for any part of a
 *   name. `fairlead.json` is always read
 * @param givenRoot the folder of the app, which overrides `root` in `fairlead.json`
 */
export async function readSourceTree(
  directory: string,
  names: readonly string[],
  givenRoot: string | null = null,
): Promise<SourceTree> {
  const root = await realpath(directory)
  const paths = new Set<string>()
  const folders = new Map<string, readonly string[]>()
  const texts = new Map<string, string>()
  const tree: SourceTree = {
    has: (path) => paths.has(path),
    list: (folder) => folders.get(folder) ?? [],
    read: (path) => texts.get(path),
  }
  const patterns = ['fairlead.json', ...names].map(asPattern)
  let left = mostBytes

  const readFolder = async (folder: string): Promise<void> => {
    for (const [path, entries] of await listFolders(root, folder)) {
      folders.set(path, entries)
      for (const entry of entries) paths.add(inFolder(path, entry))
    }
    for (const site of SITE_FOLDERS) {
      const index = inFolder(folder, `${site}/index.html`)
      if (paths.has(inFolder(folder, site)) && (await resolveWithin(root, index)) !== null) paths.add(index)
      else paths.delete(index)
    }
    const prefix = folder === '.' ? '' : `${folder}/`
    for (const pattern of patterns) {
      const isRead = (path: string) => path.startsWith(prefix) && pattern(path.slice(prefix.length))
      for (const path of [...paths].filter(isRead).slice(0, mostMatches)) {
        const text = texts.has(path) || left <= 0 ? undefined : await readWithin(root, path)
        if (text === undefined) continue
        texts.set(path, text)
        left -= text.length
      }
    }
  }
  await readFolder('.')
  const settings = readSettings(tree, givenRoot)
  const folder = settings.ok ? settings.value.root : '.'
  if (folder === '.') return tree
  if (await isFolderWithin(root, folder)) {
    paths.add(folder)
    await readFolder(folder)
  } else paths.delete(folder)
  return tree
}

const inFolder = (folder: string, name: string): string => (folder === '.' ? name : `${folder}/${name}`)

function asPattern(name: string): (path: string) => boolean {
  if (!name.includes('*')) return (path) => path === name
  const parts = name.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  const pattern = new RegExp(`^${parts.join('[^/]*')}$`)
  return (path) => pattern.test(path)
}

/**
 * Lists a folder and its subfolders, breadth first, up to a depth and a number of names. Large folders come last and
 * are not entered, so that they hide no other folders. Does not follow links.
 */
async function listFolders(root: string, top: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const listed = new Map<string, readonly string[]>()
  const large = new Map<string, readonly string[]>()
  let left = mostNames
  let level = [top]
  for (let depth = 0; depth < deepest && level.length > 0; depth += 1) {
    const next: string[] = []
    for (const folder of level) {
      const entries = await readdir(join(root, folder), { withFileTypes: true }).catch((error: unknown) => {
        if (folder === top) throw error
        return []
      })
      entries.sort((a, b) => (a.name < b.name ? -1 : 1))
      const names = entries.map(({ name }) => name)
      if (names.length > largeFolder && folder !== top) {
        large.set(folder, names)
        continue
      }
      if (names.length > left && folder !== top) return listed
      left -= names.length
      listed.set(folder, names)
      for (const entry of entries) {
        if (entry.isDirectory() && !unlisted.has(entry.name)) next.push(inFolder(folder, entry.name))
      }
    }
    level = next
  }
  for (const [folder, names] of [...large].sort(([, a], [, b]) => a.length - b.length)) {
    if (names.length > left) break
    left -= names.length
    listed.set(folder, names)
  }
  return listed
}

async function isFolderWithin(root: string, path: string): Promise<boolean> {
  const target = await resolveWithin(root, path)
  return target !== null && (await stat(target)).isDirectory()
}

/**
 * Returns the real path of a file or folder below `root`; null if it does not exist, or a link leads out. `root` must
 * be a real path.
 */
export async function resolveWithin(root: string, path: string): Promise<string | null> {
  const target = await realpath(join(root, path)).catch(() => null)
  return target?.startsWith(root + sep) ? target : null
}

async function readWithin(root: string, path: string): Promise<string | undefined> {
  const target = await resolveWithin(root, path)
  if (target === null) return undefined
  // A FIFO would wait for a writer.
  const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return undefined
  try {
    const stats = await file.stat()
    if (!stats.isFile()) return undefined
    if (isLockFile(basename(path))) {
      const size = Math.min(stats.size, LARGEST_FILE)
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0)
      return textOf(buffer.subarray(0, bytesRead))
    }
    return stats.size <= LARGEST_FILE ? textOf(await file.readFile()) : undefined
  } finally {
    await file.close()
  }
}

/** Removes the byte order mark of Windows editors. */
const textOf = (bytes: Buffer): string => new TextDecoder().decode(bytes)
