import { constants } from 'node:fs'
import { chmod, lchown, lstat, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { OsUser } from '../../platform/users.ts'

/**
 * Makes a private folder of the user's unless it exists.
 *
 * @throws Error when something else lies there, a symbolic link included
 */
export async function ensurePrivateFolder(path: string, user: OsUser | null): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error
    if (!(await lstat(path)).isDirectory()) throw new Error(`${path} is not a folder`)
    return
  }
  // Not chown: should the app have put a link there in between, its target stays whose it is.
  if (user !== null) await lchown(path, user.uid, user.gid)
}

/** Deletes a folder with all that is in it, or the symbolic link in its place but not what that points to. */
export async function removeFolder(path: string): Promise<void> {
  try {
    // Closes the folder to its app first, so that nothing in it is exchanged for a link while it is walked.
    const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    await folder.chmod(0o700).finally(() => folder.close())
  } catch (error) {
    if (isCode(error, 'ENOENT')) return
    // A link or a file has nothing in it to guard.
    if (!isCode(error, 'ENOTDIR') && !isCode(error, 'ELOOP')) throw error
  }
  await remove(path).catch(async (error: unknown) => {
    if (!isCode(error, 'EACCES') && !isCode(error, 'EPERM')) throw error
    // A build may take the right to its own folders away.
    await openFolders(path)
    await remove(path)
  })
}

function remove(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 3 })
}

/** Gives the owner all rights to every folder of a tree; links are not followed. */
async function openFolders(path: string): Promise<void> {
  await chmod(path, 0o700)
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await openFolders(join(path, entry.name))
  }
}

const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
