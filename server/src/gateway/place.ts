import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { chooseSocketFolder, makePrivateDirectory } from '../platform/machine/socket-folder.ts'
import type { OsUser } from '../platform/users.ts'
import { type EdgeSockets, edgeSocketsOf, type GatewayHome, logOf } from './protocol/program.ts'

const socketName = 'gateway.sock'
/** A gateway that starts listens beside the path first, at this path with its pid. */
const longestName = `${socketName}.4194304`

/** Returns where the gateway of a data directory is found. */
export function gatewayHome(dataDirectory: string): GatewayHome {
  const folder = join(dataDirectory, 'gateway')
  return { folder, socket: join(chooseSocketFolder({ folder, name: longestName, owner: folder }), socketName) }
}

/** Returns where an edge reaches the gateway of a data directory. The folder is private to the gateway's user. */
export function edgeSockets(dataDirectory: string): EdgeSockets {
  return edgeSocketsOf(gatewayHome(dataDirectory))
}

/**
 * Creates the folders that nobody but the gateway's user may enter, or gives existing ones to that user, with the log. Rejects
 * when something else is in their place.
 *
 * @param user `null` for the user of the server
 */
export async function makeHome(home: GatewayHome, user: OsUser | null): Promise<void> {
  const { folder, socket } = home
  await makePrivateDirectory(folder, user)
  if (dirname(socket) !== folder) await makePrivateDirectory(dirname(socket), user)
  if (user === null) return
  // The folder is that user's: what stands in the place of the log may be a link by now.
  const log = await open(logOf(home), constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  try {
    const { nlink, uid } = await log.stat()
    if (nlink === 1 && uid !== user.uid) await log.chown(user.uid, user.gid)
  } finally {
    await log.close()
  }
}
