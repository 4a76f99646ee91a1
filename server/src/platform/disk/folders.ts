import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { lchown, lstat, mkdir, open, readdir } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { OsUser } from '../users.ts'

/** The folders of the machine's own programs. */
export const SYSTEM_FOLDERS = ['/usr/local/bin', '/usr/bin', '/bin'] as const

/** Lists the names of the folders in a folder; none when it does not exist. */
export async function foldersIn(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true })
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  } catch (error) {
    if (isCode(error, 'ENOENT')) return []
    throw error
  }
}

/**
 * Makes a private folder that belongs to the user, unless it exists.
 *
 * @throws Error when the path is not a folder, such as a symbolic link
 */
export async function ensurePrivateFolder(path: string, user: OsUser | null): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 })
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error
    if (!(await lstat(path)).isDirectory()) throw new Error(`${path} is not a folder`)
    return
  }
  // lchown: the app may have put a symbolic link there, whose target keeps its owner.
  if (user !== null) await lchown(path, user.uid, user.gid)
}

/** Deletes a folder with all its content, or the symbolic link in its place but not the target of the link. */
export async function removeFolder(path: string): Promise<void> {
  try {
    // Locks the app out first, so that it cannot exchange folders for links during the walk.
    const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    await folder.chmod(0o700).finally(() => folder.close())
  } catch (error) {
    if (isCode(error, 'ENOENT')) return
    // A link or a file has no content to protect.
    if (!isCode(error, 'ENOTDIR') && !isCode(error, 'ELOOP')) throw error
  }
  // rm descends from folder to folder and not by paths. So it removes a tree deeper than the longest path, and follows
  // no link that replaces a folder during the walk.
  await run('rm', ['-rf', '--', path]).catch(async () => {
    // A build may have removed its own rights to its folders.
    await run('chmod', ['-R', 'u+rwx', '--', path]).catch(() => undefined)
    await run('rm', ['-rf', '--', path])
  })
}

async function run(program: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(program, args, { env: { PATH: SYSTEM_FOLDERS.join(':') } })
}

const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
