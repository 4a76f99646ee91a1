import { dirname, join } from 'node:path'
import { chooseSocketFolder, makePrivateDirectory } from '../../platform/machine/socket-folder.ts'
import type { GatewayHome } from '../control/program.ts'

const socketName = 'gateway.sock'
/** A gateway that starts listens beside the path first, at this path with its pid. */
const longestName = `${socketName}.4194304`

/** Returns where the gateway of a data directory is found. */
export function gatewayHome(dataDirectory: string): GatewayHome {
  const folder = join(dataDirectory, 'gateway')
  return { folder, socket: join(chooseSocketFolder({ folder, name: longestName, owner: folder }), socketName) }
}

/** Creates the folders that nobody else may enter. Rejects when something else is in their place. */
export async function makeHome({ folder, socket }: GatewayHome): Promise<void> {
  await makePrivateDirectory(folder, null)
  if (dirname(socket) !== folder) await makePrivateDirectory(dirname(socket), null)
}
