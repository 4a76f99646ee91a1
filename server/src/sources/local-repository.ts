import { constants } from 'node:fs'
import { type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { GitSource } from './git-url.ts'

/** Says which repositories on this machine a deployment may read. */
export interface FileRule {
  /** True for the operator's account in local mode: it may read everything outside the data directory. */
  readonly everywhere: boolean
  /** Every account may deploy repositories in these folders. */
  readonly below: readonly string[]
  /** Nothing in this folder is ever read, by any path. */
  readonly dataDirectory: string
}

/** A repository on this machine. It was opened before the check, so that nobody can exchange it afterwards. */
export interface OpenedRepository {
  readonly folder: FileHandle
  readonly realPath: string
}

export const allowsFiles = ({ everywhere, below }: FileRule): boolean => everywhere || below.length > 0

/**
 * Opens the folder of git's files in a repository, bare or not. The caller closes it. Returns the reason, as a clause
 * without a subject, when it cannot be read.
 */
export async function openRepository(source: GitSource, rule: FileRule): Promise<OpenedRepository | string> {
  const missing = 'leads to no git repository'
  try {
    const path = fileURLToPath(source.url)
    for (const candidate of [join(path, '.git'), path]) {
      const opened = await openFolder(candidate)
      if (opened === null) continue
      // A forbidden folder looks missing, so that nobody can find out which files exist here.
      const refusal = rule.everywhere ? insideMessage : missing
      const problem = (await isAllowed(opened.realPath, rule)) ? await gitFolderProblem(opened, missing) : refusal
      if (problem === null) return opened
      await opened.folder.close()
      if (problem !== missing) return problem
    }
    return missing
  } catch {
    return missing
  }
}

/** Returns why a repository cannot be read, as a clause without a subject; null when it can. */
export async function fileProblem(source: GitSource, rule: FileRule): Promise<string | null> {
  const opened = await openRepository(source, rule)
  if (typeof opened === 'string') return opened
  await opened.folder.close()
  return null
}

const insideMessage = 'leads into the data directory of the server, of which nothing is deployed'

async function openFolder(path: string): Promise<OpenedRepository | null> {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY).catch(() => null)
  if (folder === null) return null
  try {
    return { folder, realPath: await readlink(`/proc/self/fd/${folder.fd}`) }
  } catch (error) {
    await folder.close()
    throw error
  }
}

async function isAllowed(path: string, { everywhere, below, dataDirectory }: FileRule): Promise<boolean> {
  const data = await realpath(dataDirectory)
  if (isIn(path, data) || isIn(data, path)) return false
  if (everywhere) return true
  const folders = await Promise.all(below.map((folder) => realpath(folder).catch(() => null)))
  return folders.some((folder) => folder !== null && isIn(path, folder))
}

/** True when a path equals a folder or is inside it. Both must have no symbolic links. */
const isIn = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)

async function gitFolderProblem({ folder }: OpenedRepository, missing: string): Promise<string | null> {
  const at = `/proc/self/fd/${folder.fd}`
  const [head, objects, alternates] = await Promise.all(
    ['HEAD', 'objects', 'objects/info/alternates'].map((name) => stat(join(at, name)).catch(() => null)),
  )
  if (head?.isFile() !== true || objects?.isDirectory() !== true) return missing
  // The other repository is outside git's view.
  if (alternates)
    return 'leads to a repository that borrows objects of another. Run git repack -ad in it, and delete objects/info/alternates'
  return null
}
