import { createHash } from 'node:crypto'
import { access, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Caches } from '../platform/disk/caches.ts'

/**
 * Bare repositories of our own, one for each project and address, so that a second fetch brings only what is new. They
 * save the way, never the question: what the remote does not give at this moment is not taken from them.
 */
export interface GitCache {
  /** Runs with the folder of the repository, which may not exist yet; nobody else uses it meanwhile. */
  use<T>(projectId: string, url: string, signal: AbortSignal, work: (folder: CacheFolder) => Promise<T>): Promise<T>
  /** The folder of all repositories of a project. */
  folderOf(projectId: string): string
  removeProject(projectId: string): Promise<void>
}

export interface CacheFolder {
  readonly path: string
  /** Whether something was fetched into it before. */
  readonly used: boolean
  /** Empties it, to begin anew. */
  clear(): Promise<void>
}

/** Every fetch leaves a pack; a repository of more begins anew, which also forgets what is not needed any more. */
const mostPacks = 50

export function createGitCache(options: {
  readonly directory: string
  readonly caches: Pick<Caches, 'use'>
}): GitCache {
  const folderOf = (projectId: string): string => join(options.directory, projectId)

  return {
    folderOf,
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
    removeProject: (projectId) => rm(folderOf(projectId), { recursive: true, force: true }),
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
