import type { PoolConfig } from 'pg'
import type { Config } from '../config.ts'
import { type DatabaseHandle, migrate, openDatabase } from '../database.ts'
import type { Logger } from '../logger.ts'
import { migrations } from '../migrations/index.ts'
import { openCluster } from '../postgres/cluster.ts'
import type { OsUser } from '../users.ts'
import { type DataDirectory, openDataDirectory } from './data-directory.ts'

/** What a server, or a command beside it, works on. */
export interface State extends DatabaseHandle {
  readonly directory: DataDirectory
  /** For connections besides the pool's. */
  readonly connection: PoolConfig
}

/** The user of the embedded cluster: the first of the configured uids when the server is root. */
export function clusterUser(config: Config): OsUser | null {
  return isRoot() ? { uid: config.uids.from, gid: config.uids.from } : null
}

/** The user of the clusters that hold users' databases: the last of them. */
export function databasesUser(config: Config): OsUser | null {
  return isRoot() ? { uid: config.uids.to, gid: config.uids.to } : null
}

export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/**
 * Opens the data directory and the database in it (or the operator's), with the schema brought up to date.
 * Any number of processes may have them open at once.
 */
export async function openState(options: {
  readonly config: Config
  readonly logger: Logger
  /** For long-lived processes: keep the embedded PostgreSQL alive. */
  readonly supervise: boolean
  readonly signal: AbortSignal
}): Promise<State> {
  const { config, logger, supervise, signal } = options
  const user = clusterUser(config)
  const directory = await openDataDirectory(config.dataDirectory, user)
  if (config.databaseUrl !== undefined) {
    const connection = { connectionString: config.databaseUrl }
    const handle = openDatabase(connection, logger)
    await migrate(handle.db, migrations).catch(async (error: unknown) => {
      await handle.close()
      throw unusableDatabase(error)
    })
    return { ...handle, directory, connection }
  }
  const cluster = await openCluster({
    directory: directory.cluster,
    runtimeDirectory: directory.runtime,
    user,
    logger,
    signal,
    supervise,
  })
  const handle = openDatabase({ ...cluster.connection }, logger)
  const close = async () => {
    await handle.close()
    await cluster.close()
  }
  try {
    await migrate(handle.db, migrations)
  } catch (error) {
    await close()
    throw error
  }
  return { ...handle, close, directory, connection: { ...cluster.connection } }
}

/** The address itself is not repeated: it holds a password. */
function unusableDatabase(error: unknown): Error {
  const reason = error instanceof Error ? (error.message === '' ? String(error) : error.message) : String(error)
  return new Error(
    `The PostgreSQL server in DATABASE_URL cannot be used: ${reason}. Check host, port, user, password and database in it, or unset it to use the embedded PostgreSQL.`,
    { cause: error },
  )
}
