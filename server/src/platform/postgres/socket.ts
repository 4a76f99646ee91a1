import { chown, lstat, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { chooseSocketFolder } from '../machine/socket-folder.ts'
import type { OsUser } from '../users.ts'

/** The port of Fairlead's own cluster. It is only a part of the socket's name; nothing listens on the network. */
export const socketPort = 5432

/**
 * Returns the folder for the socket: `<parent>/socket`, or, when that address is too long for the system, a folder in the
 * temporary directory named by a hash of the cluster's directory. Throws when both are too long.
 */
export function chooseSocketDirectory(options: {
  readonly directory: string
  readonly parent: string
  readonly temporary: string
  readonly platform: string
  readonly port?: number
}): string {
  return chooseSocketFolder({
    folder: join(options.parent, 'socket'),
    name: `.s.PGSQL.${options.port ?? socketPort}`,
    owner: options.directory,
    temporary: options.temporary,
    platform: options.platform,
  })
}

/**
 * Creates a 0700 folder that belongs to `user`. An existing one must be exactly that, no link and no other user's: in the
 * temporary directory any user could have created it to listen in the server's place.
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
 * Returns false when nothing is at the path. Rejects when it is not a private folder of this process's user: another user
 * could listen in there in the place of the one that is looked for.
 */
export async function isPrivateDirectory(path: string): Promise<boolean> {
  const found = await examine(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (found === null) return false
  if (!found.isPrivate || found.uid !== process.getuid?.()) {
    throw new Error(
      `${path} is no private folder of this user (owner ${found.uid}, mode ${found.mode.toString(8)}). Remove it and try again.`,
    )
  }
  return true
}

async function examine(path: string) {
  const info = await lstat(path)
  const mode = info.mode & 0o777
  return { uid: info.uid, mode, isPrivate: info.isDirectory() && mode === 0o700 }
}
