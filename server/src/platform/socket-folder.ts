import { createHash } from 'node:crypto'
import { chown, lstat, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OsUser } from './users.ts'

/** Returns the bytes of `sun_path` without its closing zero byte (unix(7)): 108 on Linux and 104 on macOS with it. */
function longestSocketPath(platform: string): number {
  return platform === 'darwin' ? 103 : 107
}

/**
 * Returns the folder for a Unix socket: `folder`, or, when the socket's address would be too long there, a folder in
 * the temporary directory named by a hash of `owner`. Throws when both addresses are too long.
 */
export function chooseSocketFolder(options: {
  readonly folder: string
  readonly name: string
  /** A unique path, whose hash names a folder in the temporary directory. */
  readonly owner: string
  readonly temporary?: string
  readonly platform?: string
}): string {
  const { folder, name, owner, temporary = tmpdir(), platform = process.platform } = options
  const hash = createHash('sha256').update(owner).digest('hex').slice(0, 16)
  const candidates = [folder, join(temporary, `fairlead-${hash}`)]
  const chosen = candidates.find((each) => Buffer.byteLength(`${each}/${name}`) <= longestSocketPath(platform))
  if (chosen === undefined) {
    throw new Error(
      `The path ${folder} is too long for a Unix socket, and so is the temporary directory ` +
        `${temporary}. Choose a shorter --data-dir or set TMPDIR to a shorter path.`,
    )
  }
  return chosen
}

/**
 * Creates a 0700 folder that belongs to `user`. An existing folder must have this mode and owner and must not be a
 * link: in the temporary directory any user could have created it to listen in the server's place.
 */
export async function makePrivateDirectory(path: string, user: OsUser | null): Promise<void> {
  const self = process.getuid?.()
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  const { uid, mode, isPrivate } = await examine(path)
  // Created just now, or by an earlier start that was killed at this point.
  if (isPrivate && user !== null && uid === self) return chown(path, user.uid, user.gid)
  if (isPrivate && uid === (user?.uid ?? self)) return
  throw new Error(
    `${path} is needed as a private folder of user id ${user?.uid ?? self}, but something else is there ` +
      `(owner ${uid}, mode ${mode.toString(8)}). Remove it and start again.`,
  )
}

/**
 * Returns false when nothing is at the path. Rejects when it is not a private folder of this process's user or of
 * `user`: another user could listen there in place of the expected program.
 */
export async function isPrivateDirectory(path: string, user: OsUser | null): Promise<boolean> {
  const found = await examine(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (found === null) return false
  if (!found.isPrivate || (found.uid !== process.getuid?.() && found.uid !== user?.uid)) {
    throw new Error(
      `${path} is not a private folder of this user (owner ${found.uid}, mode ${found.mode.toString(8)}). Remove it and try again.`,
    )
  }
  return true
}

async function examine(path: string) {
  const info = await lstat(path)
  const mode = info.mode & 0o777
  return { uid: info.uid, mode, isPrivate: info.isDirectory() && mode === 0o700 }
}
