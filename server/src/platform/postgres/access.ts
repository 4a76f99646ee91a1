import { chmod, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { socketPort } from './socket.ts'

/** How a cluster is reached, and what its command line settles before any file of its own is read. */
export interface ClusterAccess {
  /** The database that `Cluster.connection` leads to; made when it is missing. */
  readonly database: string
  /** A part of the socket's name, and the port on `listen`. */
  readonly port: number
  /** The address that it listens on besides its socket, or nothing. */
  readonly listen: '' | '127.0.0.1'
  /** The text of pg_hba.conf, in place of the one that `initdb` made. */
  readonly hba: string | null
  /** Further settings; neither postgresql.conf nor ALTER SYSTEM changes them. */
  readonly settings: Readonly<Record<string, string>>
  /** What each of its processes may take of private memory, in bytes; where the system can hold it to that. */
  readonly processMemory: number | null
}

/** Fairlead's own cluster: a socket that nobody else can reach. */
export const privateAccess: ClusterAccess = {
  database: 'fairlead',
  port: socketPort,
  listen: '',
  hba: null,
  settings: {},
  processMemory: null,
}

/** Where the text of `access.hba` lies for the cluster in `directory`. */
export function hbaFile(directory: string): string {
  return join(dirname(directory), 'pg_hba.conf')
}

/** Writes it, readable for the cluster's user; a running cluster never sees half of it. */
export async function writeHba(directory: string, text: string): Promise<void> {
  const file = hbaFile(directory)
  const fresh = `${file}.new`
  await writeFile(fresh, text)
  await chmod(fresh, 0o644)
  await rename(fresh, file)
}
