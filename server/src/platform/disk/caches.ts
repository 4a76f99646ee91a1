import { lstat, lutimes } from 'node:fs/promises'
import { createKeyedLock } from '../keyed-lock.ts'
import { removeFolder } from './folders.ts'
import { sizeOf } from './tree-size.ts'

/**
 * Folders that save downloads, such as an app's packages or a repository. An unused one can be deleted, because its
 * content can be downloaded again.
 */
export interface Caches {
  /** Runs `action` after all earlier uses of the folder. It is not deleted during `action`, and may not exist yet. */
  use<T>(path: string, signal: AbortSignal, action: () => Promise<T>): Promise<T>
  /** True while a caller uses the folder or waits for it. */
  isInUse(path: string): boolean
  trim(): Promise<void>
}

export interface CacheCaps {
  readonly mostEachBytes: number
  readonly mostAllBytes: number
}

export interface FoundCache {
  readonly path: string
  readonly bytes: number
  /** The time of the last use, in milliseconds of Unix time. */
  readonly usedAt: number
  readonly inUse: boolean
}

/** Returns the caches to delete: too large caches, then the least recently used until the rest fits the cap. */
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

/**
 * @param options.list lists the folders of all caches; they need not exist
 * @param options.isKept true for a folder that something needs, so that the caps do not delete it
 */
export function createCaches(
  options: CacheCaps & {
    readonly list: () => Promise<readonly string[]>
    readonly isKept?: (path: string) => Promise<boolean>
  },
): Caches {
  const { list, isKept = async () => false } = options
  const lock = createKeyedLock()
  const users = new Map<string, number>()
  const measured = new Map<string, { readonly bytes: number; readonly usedAt: number }>()
  const isInUse = (path: string): boolean => users.has(path)

  const measure = async (path: string): Promise<FoundCache | null> => {
    const info = await lstat(path).catch(() => null)
    if (info === null) return null
    const usedAt = info.mtimeMs
    const known = measured.get(path)
    const bytes = known?.usedAt === usedAt ? known.bytes : await sizeOf([path])
    measured.set(path, { bytes, usedAt })
    return { path, bytes, usedAt, inUse: isInUse(path) || (await isKept(path)) }
  }

  const trim = async (): Promise<void> => {
    const paths = new Set(await list())
    for (const path of measured.keys()) if (!paths.has(path)) measured.delete(path)
    const found: FoundCache[] = []
    for (const path of paths) {
      const cache = await measure(path)
      if (cache !== null) found.push(cache)
    }
    for (const path of beyondCaps(found, options)) {
      // From here on, a new caller waits until the folder is deleted.
      if (isInUse(path)) continue
      // The folder may have become needed since `measure`.
      await lock(path, async () => ((await isKept(path)) ? undefined : removeFolder(path)))
    }
  }

  return {
    isInUse,

    async use(path, signal, action) {
      users.set(path, (users.get(path) ?? 0) + 1)
      try {
        return await lock(path, action, signal)
      } finally {
        // The folder's own time records the last use, also across a restart.
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
