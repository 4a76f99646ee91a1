import { randomUUID } from 'node:crypto'
import { chmod, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { chooseSocketFolder } from '../socket-folder.ts'

/** The access to a cluster, and the settings on its command line, which take precedence over its files. */
export interface ClusterAccess {
  /** The database of `Cluster.connection`; created when it is missing. */
  readonly database: string
  /** A part of the socket's name, and the port on `listen`. */
  readonly port: number
  readonly listen: '' | '127.0.0.1'
  /** The text of pg_hba.conf; `null` keeps the file of `initdb`. */
  readonly hba: string | null
  /** Further settings, which neither postgresql.conf nor ALTER SYSTEM can change. */
  readonly settings: Readonly<Record<string, string>>
  /**
   * The limit of private memory for each process, in bytes, where the system supports such a limit; `null` for none.
   */
  readonly processMemory: number | null
}

/** The port is only a part of the socket's name; nothing listens on the network. */
const socketPort = 5432

/** Fairlead's own cluster has only a private socket. */
export const privateAccess: ClusterAccess = {
  database: 'fairlead',
  port: socketPort,
  listen: '',
  hba: null,
  settings: {},
  processMemory: null,
}

export function hbaFile(directory: string): string {
  return join(dirname(directory), 'pg_hba.conf')
}

/**
 * Writes the file, readable for the cluster's user. It is replaced atomically, so a running cluster never reads half of
 * it.
 */
export async function writeHba(directory: string, text: string): Promise<void> {
  const file = hbaFile(directory)
  // Several servers may write it at once.
  const fresh = `${file}.${randomUUID()}`
  await writeFile(fresh, text)
  await chmod(fresh, 0o644)
  await rename(fresh, file)
}

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
