import { createHash } from 'node:crypto'
import { chown, lstat, mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { OsUser } from '../users.ts'

/** The port of Fairlead's own cluster. It is only a part of the socket's name; nothing listens on the network. */
export const socketPort = 5432

/** Returns the bytes of `sun_path` without its closing zero byte (unix(7)): 108 on Linux and 104 on macOS with it. */
function longestSocketPath(platform: string): number {
  return platform === 'darwin' ? 103 : 107
}

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
  return fittingDirectory({
    preferred: join(options.parent, 'socket'),
    identifies: options.directory,
    temporary: options.temporary,
    name: `.s.PGSQL.${options.port ?? socketPort}`,
    platform: options.platform,
  })
}

/**
 * Returns `preferred`, or, when a socket called `name` in it has too long an address for the system, a folder in the
 * temporary directory named by a hash of `identifies`. Throws when both are too long.
 */
export function fittingDirectory(options: {
  readonly preferred: string
  readonly identifies: string
  readonly temporary: string
  readonly name: string
  readonly platform?: string
}): string {
  const { preferred, identifies, temporary, name, platform = process.platform } = options
  const hash = createHash('sha256').update(identifies).digest('hex').slice(0, 16)
  const fits = (folder: string) => Buffer.byteLength(`${folder}/${name}`) <= longestSocketPath(platform)
  const chosen = [preferred, join(temporary, `fairlead-${hash}`)].find(fits)
  if (chosen === undefined) {
    throw new Error(
      `The path ${dirname(preferred)} is too long for a Unix socket, and so is the temporary directory ` +
        `${temporary}. Choose a shorter --data-dir or set TMPDIR to a shorter path.`,
    )
  }
  return chosen
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

async function examine(path: string) {
  const info = await lstat(path)
  const mode = info.mode & 0o777
  return { uid: info.uid, mode, isPrivate: info.isDirectory() && mode === 0o700 }
}
