import { constants } from 'node:fs'
import { open, readdir, realpath, stat } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
import { readSettings } from './detectors/fairlead-json.ts'
import { LARGEST_FILE, SITE_FOLDERS, type SourceTree } from './detectors/tree.ts'

const READ = [
  'fairlead.json',
  'package.json',
  'Procfile',
  '.npmrc',
  'pnpm-workspace.yaml',
  'requirements.txt',
  'pyproject.toml',
]
/** May be much larger, but its first lines tell its format. */
const HEADED = 'yarn.lock'
const HEAD = 4096

/** Collects the description of the tree in `directory`. Symbolic links that lead out of the tree are not followed. */
export async function readSourceTree(directory: string): Promise<SourceTree> {
  const root = await realpath(directory)
  const paths = new Set<string>()
  const texts = new Map<string, string>()
  const tree: SourceTree = { has: (path) => paths.has(path), read: (path) => texts.get(path) }

  const readFolder = async (folder: string): Promise<void> => {
    const inFolder = (name: string) => (folder === '.' ? name : `${folder}/${name}`)
    const names = new Set(await readdir(join(root, folder)))
    for (const name of names) paths.add(inFolder(name))
    for (const site of SITE_FOLDERS) {
      const index = inFolder(`${site}/index.html`)
      if (names.has(site) && (await resolveWithin(root, index)) !== null) paths.add(index)
    }
    for (const name of [...READ, HEADED]) {
      const text = names.has(name) ? await readWithin(root, inFolder(name)) : undefined
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
  // Not blocking, because a FIFO would wait for a writer.
  const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (file === null) return undefined
  try {
    const stats = await file.stat()
    if (!stats.isFile()) return undefined
    if (basename(path) === HEADED) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD), 0, HEAD, 0)
      return buffer.toString('utf8', 0, bytesRead)
    }
    return stats.size <= LARGEST_FILE ? await file.readFile('utf8') : undefined
  } finally {
    await file.close()
  }
}
