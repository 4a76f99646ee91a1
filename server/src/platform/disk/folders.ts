import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { lchown, lstat, mkdir, open } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { OsUser } from '../users.ts'

/** Where the machine's own programs lie. */
export const SYSTEM_FOLDERS = ['/usr/local/bin', '/usr/bin', '/bin'] as const

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
  // The system's programs go down from folder to folder and not by paths: neither a tree deeper than a path is long nor
  // a folder that is exchanged for a link meanwhile leads them astray.
  await run('rm', ['-rf', '--', path]).catch(async () => {
    // A build may take the right to its own folders away.
    await run('chmod', ['-R', 'u+rwx', '--', path]).catch(() => undefined)
    await run('rm', ['-rf', '--', path])
  })
}

async function run(program: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(program, args, { env: { PATH: SYSTEM_FOLDERS.join(':') } })
}

const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
