import { createHash } from 'node:crypto'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sizeOf } from '../platform/disk/tree-size.ts'
import { exists } from '../platform/files.ts'

/**
 * Bare repositories, one for each project and address, so that a second fetch downloads only new objects. The remote is
 * asked all the same: a commit that it does not give now is not taken from the cache.
 */
export interface GitCache {
  /** Runs `work` with the folder of the repository, which nobody else uses meanwhile. */
  use<T>(projectId: string, url: string, signal: AbortSignal, work: (folder: CacheFolder) => Promise<T>): Promise<T>
  /** Returns the bytes of all repositories of a project; some number above `enough` as soon as there are more. */
  size(projectId: string, enough?: number): Promise<number>
  removeProject(projectId: string): Promise<void>
}

export interface CacheFolder {
  readonly path: string
  /** True when something was fetched into it before. */
  readonly used: boolean
  /** Empties it. */
  clear(): Promise<void>
}

/** Every fetch leaves a pack. A repository with more of them is emptied, which also drops objects that are not needed. */
const mostPacks = 50

export function createGitCache(options: {
  readonly directory: string
  readonly caches: { use<T>(path: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> }
}): GitCache {
  const folderOf = (projectId: string): string => join(options.directory, projectId)

  return {
    use: (projectId, url, signal, work) => {
      const name = createHash('sha256').update(url).digest('hex').slice(0, 32)
      const path = join(folderOf(projectId), name)
      return options.caches.use(path, signal, async () => {
        const clear = async () => {
          await rm(path, { recursive: true, force: true })
          await mkdir(path, { recursive: true, mode: 0o700 })
        }
        const packs = await readdir(join(path, 'objects', 'pack')).catch(() => [])
        const used = await exists(join(path, 'HEAD'))
        const full = packs.filter((file) => file.endsWith('.pack')).length > mostPacks
        if (!used || full) await clear()
        return work({ path, used: used && !full, clear })
      })
    },
    size: (projectId, enough) => sizeOf([folderOf(projectId)], enough),
    removeProject: (projectId) => rm(folderOf(projectId), { recursive: true, force: true }),
  }
}

/** Lists the folders of all repositories: each is in `<directory>/<project>/`. */
export async function gitCacheFolders(directory: string): Promise<string[]> {
  const inside = async (folder: string): Promise<string[]> =>
    (await readdir(folder).catch(() => [])).map((name) => join(folder, name))
  return (await Promise.all((await inside(directory)).map(inside))).flat()
}
