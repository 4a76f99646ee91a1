import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { chooseSocketFolder, makePrivateDirectory } from '../platform/socket-folder.ts'
import type { OsUser } from '../platform/users.ts'
import { type EdgeSockets, edgeSocketsOf, type GatewayHome, logOf } from './protocol/program.ts'

const socketName = 'gateway.sock'
/** A starting gateway first listens at a temporary path with its pid. This is the longest such name. */
const longestName = `${socketName}.4194304`

export function gatewayHome(dataDirectory: string): GatewayHome {
  const folder = join(dataDirectory, 'gateway')
  return { folder, socket: join(chooseSocketFolder({ folder, name: longestName, owner: folder }), socketName) }
}

/**
 * Returns the sockets where an edge reaches the gateway of a data directory. Only the gateway's user can enter the
 * folder.
 */
export function edgeSockets(dataDirectory: string): EdgeSockets {
  return edgeSocketsOf(gatewayHome(dataDirectory))
}

/**
 * Creates the private folders, or hands existing folders with the log to the gateway's user. Rejects when something
 * else is in their place.
 *
 * @param user `null` for the server's user
 */
export async function makeHome(home: GatewayHome, user: OsUser | null): Promise<void> {
  const { folder, socket } = home
  await makePrivateDirectory(folder, user)
  if (dirname(socket) !== folder) await makePrivateDirectory(dirname(socket), user)
  if (user === null) return
  // That user owns the folder, and may have replaced the log by a link.
  const log = await open(logOf(home), constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  try {
    const { nlink, uid } = await log.stat()
    if (nlink === 1 && uid !== user.uid) await log.chown(user.uid, user.gid)
  } finally {
    await log.close()
  }
}
