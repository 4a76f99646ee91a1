import { randomUUID } from 'node:crypto'
import { chmod, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { socketPort } from './socket.ts'

/** How a cluster is reached, and the settings that its command line fixes above its own files. */
export interface ClusterAccess {
  /** The database of `Cluster.connection`; created when it is missing. */
  readonly database: string
  /** A part of the socket's name, and the port on `listen`. */
  readonly port: number
  /** The address that it listens on besides its socket; empty for none. */
  readonly listen: '' | '127.0.0.1'
  /** The text of pg_hba.conf; `null` keeps the file that `initdb` made. */
  readonly hba: string | null
  /** Further settings, which neither postgresql.conf nor ALTER SYSTEM can change. */
  readonly settings: Readonly<Record<string, string>>
  /** The limit of private memory for each of its processes, in bytes, where the system has such a limit; `null` for none. */
  readonly processMemory: number | null
}

/** The access of Fairlead's own cluster: through a socket that nobody else can reach. */
export const privateAccess: ClusterAccess = {
  database: 'fairlead',
  port: socketPort,
  listen: '',
  hba: null,
  settings: {},
  processMemory: null,
}

/** Returns the path of the file for `access.hba` of the cluster in `directory`. */
export function hbaFile(directory: string): string {
  return join(dirname(directory), 'pg_hba.conf')
}

/** Writes the file, readable for the cluster's user. It is replaced at once, so a running cluster never reads half of it. */
export async function writeHba(directory: string, text: string): Promise<void> {
  const file = hbaFile(directory)
  // Several servers may do so at once.
  const fresh = `${file}.${randomUUID()}`
  await writeFile(fresh, text)
  await chmod(fresh, 0o644)
  await rename(fresh, file)
}
