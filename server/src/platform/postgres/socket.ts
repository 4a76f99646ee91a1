import { join } from 'node:path'
import { chooseSocketFolder } from '../machine/socket-folder.ts'

/** The port of Fairlead's own cluster. It is only a part of the socket's name; nothing listens on the network. */
export const socketPort = 5432

/**
 * Returns the folder for the socket: `<parent>/socket`, or, when that address is too long for the system, a folder in
 * the temporary directory named by a hash of the cluster's directory. Throws when both are too long.
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
