import { lstat, lutimes, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedLock } from '../keyed-lock.ts'
import { removeFolder } from './folders.ts'
import { sizeOf } from './tree-size.ts'

/**
 * Folders that save downloads, each for a purpose of its own: the packages of an app, a repository. None is ever needed:
 * whatever becomes too much is cleared away, and comes again when somebody asks for it.
 */
export interface Caches {
  /** Runs when all earlier use of this folder has ended; nothing is cleared away from it meanwhile. It may not exist yet. */
  use<T>(path: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>
  isInUse(path: string): boolean
  /** Clears away what is beyond the caps; what is in use stays. */
  trim(): Promise<void>
}

export interface CacheCaps {
  /** The most that one may take on the disk, and all of them together. */
  readonly mostEachBytes: number
  readonly mostAllBytes: number
}

/** A cache as it is found on the disk; times in milliseconds. */
export interface FoundCache {
  readonly path: string
  readonly bytes: number
  readonly usedAt: number
  readonly inUse: boolean
}

/** The caches to clear away: those that are too large, and then the least recently used until all others are within the cap. */
export function beyondCaps(found: readonly FoundCache[], { mostEachBytes, mostAllBytes }: CacheCaps): string[] {
  const tooLarge = found.filter(({ bytes, inUse }) => bytes > mostEachBytes && !inUse)
  const rest = found.filter((cache) => !tooLarge.includes(cache)).toSorted((a, b) => a.usedAt - b.usedAt)
  let bytes = rest.reduce((sum, cache) => sum + cache.bytes, 0)
  const tooMany: FoundCache[] = []
  for (const cache of rest) {
    if (bytes <= mostAllBytes) break
    if (cache.inUse) continue
    tooMany.push(cache)
    bytes -= cache.bytes
  }
  return [...tooLarge, ...tooMany].map(({ path }) => path)
}

/** @param options.list the folders of all caches that are there */
export function createCaches(options: CacheCaps & { readonly list: () => Promise<readonly string[]> }): Caches {
  const { list } = options
  const lock = createKeyedLock()
  /** How many use a folder or wait to do so. */
  const users = new Map<string, number>()
  /** What was measured, each as it was after a use. */
  const measured = new Map<string, { readonly bytes: number; readonly usedAt: number }>()
  const isInUse = (path: string): boolean => users.has(path)

  const look = async (path: string): Promise<FoundCache | null> => {
    const info = await lstat(path).catch(() => null)
    if (info === null) return null
    const usedAt = info.mtimeMs
    const known = measured.get(path)
    const bytes = known?.usedAt === usedAt ? known.bytes : await sizeOf([path])
    measured.set(path, { bytes, usedAt })
    return { path, bytes, usedAt, inUse: isInUse(path) }
  }

  const trim = async (): Promise<void> => {
    const paths = new Set(await list())
    for (const path of measured.keys()) if (!paths.has(path)) measured.delete(path)
    const found: FoundCache[] = []
    for (const path of paths) {
      const cache = await look(path)
      if (cache !== null) found.push(cache)
    }
    for (const path of beyondCaps(found, options)) {
      // Whoever asks for it from here on waits until it is gone.
      if (!isInUse(path)) await lock(path, () => removeFolder(path))
    }
  }

  return {
    isInUse,

    async use(path, signal, work) {
      users.set(path, (users.get(path) ?? 0) + 1)
      try {
        return await lock(path, work, signal)
      } finally {
        // Its time tells when it was used last, also after a restart.
        const now = new Date()
        await lutimes(path, now, now).catch(() => undefined)
        const left = (users.get(path) ?? 1) - 1
        if (left === 0) users.delete(path)
        else users.set(path, left)
      }
    },

    trim: () => lock('trim', trim),
  }
}

/** The folders of all caches: a repository's in `<git>/<project>/…`, an app's packages in `<apps>/<app>/cache`. */
export async function cacheFolders(directories: { readonly git: string; readonly apps: string }): Promise<string[]> {
  const inside = async (directory: string): Promise<string[]> =>
    (await readdir(directory).catch(() => [])).map((name) => join(directory, name))
  const repositories = await Promise.all((await inside(directories.git)).map(inside))
  return [...repositories.flat(), ...(await inside(directories.apps)).map((app) => join(app, 'cache'))]
}
