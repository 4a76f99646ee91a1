import { createHash } from 'node:crypto'
import { chmod, chown, constants, copyFile, lstat, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sizeOf } from '../platform/disk/tree-size.ts'
import type { OsUser } from '../platform/users.ts'

/**
 * Bare repositories, one for each project and address, so that a second fetch downloads only new objects. The remote is
 * always asked, so a commit that it no longer returns is not served from the cache.
 */
export interface GitCache {
  /** Runs `work` with the folder of the repository, under an exclusive lock. */
  use<T>(
    projectId: string,
    remote: CachedRemote,
    signal: AbortSignal,
    work: (folder: CacheFolder) => Promise<T>,
  ): Promise<T>
  /**
   * Returns the bytes of all repositories of a project. Stops counting above `enough` and returns the number so far.
   */
  size(projectId: string, enough?: number): Promise<number>
  removeProject(projectId: string): Promise<void>
}

export interface CachedRemote {
  readonly url: string
  readonly format: ObjectFormat
}

export type ObjectFormat = 'sha1' | 'sha256'

export interface PackContent {
  /** The path of the pack, which is copied. */
  readonly pack: string
  /** The commit, whose parents need not be in the pack. */
  readonly commit: string
}

export const packIn = ({ path }: Pick<CacheFolder, 'path'>): string => join(path, 'objects', 'pack', 'pack-source.pack')

export interface CacheFolder {
  readonly path: string
  readonly used: boolean
  clear(): Promise<void>
  /** Replaces it with a repository of only this content. */
  fill(content: PackContent): Promise<void>
}

/** Every fetch leaves a pack. A repository with more packs is emptied, which also drops unneeded objects. */
const mostPacks = 50

export function createGitCache(options: {
  readonly directory: string
  readonly user: OsUser | null
  readonly caches: { use<T>(path: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> }
}): GitCache {
  const { directory, user, caches } = options
  const folderOf = (projectId: string): string => join(directory, projectId)

  return {
    use: (projectId, { url, format }, signal, work) => {
      const key = format === 'sha1' ? url : `${format} ${url}`
      const path = join(folderOf(projectId), createHash('sha256').update(key).digest('hex').slice(0, 32))
      return caches.use(path, signal, async () => {
        const clear = () => makeRepository(path, format, user)
        const used = await isUsable(path, user)
        if (!used) {
          await passThrough([directory, folderOf(projectId)], user)
          await clear()
        }
        const fill = (content: PackContent) => makeRepository(path, format, user, content)
        try {
          return await work({ path, used, clear, fill })
        } finally {
          // An incomplete pack can be very large. If it cannot be removed now, the next use removes it.
          if ((await packsOf(path)).some(isUnfinished)) await clear().catch(() => undefined)
        }
      })
    },
    size: (projectId, enough) => sizeOf([folderOf(projectId)], enough),
    removeProject: (projectId) => rm(folderOf(projectId), { recursive: true, force: true }),
  }
}

/** Lists the folders of all repositories; each is in `<directory>/<project>/`. */
export async function gitCacheFolders(directory: string): Promise<string[]> {
  const inside = async (folder: string): Promise<string[]> =>
    (await readdir(folder).catch(() => [])).map((name) => join(folder, name))
  return (await Promise.all((await inside(directory)).map(inside))).flat()
}

/**
 * False for a repository that is missing, was made by another user, has too many packs, or has half a pack from a
 * killed server.
 */
async function isUsable(path: string, user: OsUser | null): Promise<boolean> {
  const head = await lstat(join(path, 'HEAD')).catch(() => null)
  if (head === null || (user !== null && head.uid !== user.uid)) return false
  const packs = await packsOf(path)
  return packs.filter((file) => file.endsWith('.pack')).length <= mostPacks && !packs.some(isUnfinished)
}

const packsOf = (path: string): Promise<string[]> => readdir(join(path, 'objects', 'pack')).catch(() => [])

/** True for an unfinished file: git renames its files when they are complete. */
const isUnfinished = (file: string): boolean => file.startsWith('tmp_')

/**
 * Creates a bare repository (gitrepository-layout(5)), by default an empty one, in place of anything that exists there.
 */
async function makeRepository(
  path: string,
  format: ObjectFormat,
  user: OsUser | null,
  content?: PackContent,
): Promise<void> {
  await rm(path, { recursive: true, force: true })
  const extension = format === 'sha1' ? '' : `[extensions]\n\tobjectFormat = ${format}\n`
  const version = format === 'sha1' ? 0 : 1
  const files = {
    HEAD: 'ref: refs/heads/main\n',
    config: `[core]\n\trepositoryFormatVersion = ${version}\n\tbare = true\n${extension}`,
    ...(content === undefined ? {} : { shallow: `${content.commit}\n` }),
  }
  const folders = [path, join(path, 'objects'), join(path, 'objects', 'pack'), join(path, 'refs')]
  for (const folder of folders) await mkdir(folder, { recursive: true, mode: 0o700 })
  for (const [name, content] of Object.entries(files)) await writeFile(join(path, name), content)
  const pack = packIn({ path })
  if (content !== undefined) await copyFile(content.pack, pack, constants.COPYFILE_FICLONE)
  if (user === null) return
  // The owner of the folder changes last: until then git's user can change nothing in it.
  const names = Object.keys(files).map((name) => join(path, name))
  const made = [...(content === undefined ? [] : [pack]), ...names, ...folders.toReversed()]
  for (const each of made) await chown(each, user.uid, user.gid)
}

/** Creates folders that git's user can pass through but cannot list. */
async function passThrough(folders: readonly string[], user: OsUser | null): Promise<void> {
  for (const folder of folders) {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    if (user !== null) await chmod(folder, 0o711)
  }
}
