import type { PoolConfig } from 'pg'
import type { Config } from '../config.ts'
import { connectionBudget } from '../database/connection-budget.ts'
import { type DatabaseHandle, migrate, openDatabase } from '../database.ts'
import type { Logger } from '../logger.ts'
import { migrations } from '../migrations/index.ts'
import { openCluster } from '../postgres/cluster.ts'
import type { OsUser } from '../users.ts'
import { type DataDirectory, openDataDirectory } from './data-directory.ts'

/** The data directory and the database of a server, open for the server itself or for a command beside it. */
export interface State extends DatabaseHandle {
  readonly directory: DataDirectory
  /** For connections outside the pool. */
  readonly connection: PoolConfig
}

/** Returns the user that runs the embedded PostgreSQL cluster: the first configured uid when the server is root. */
export function clusterUser(config: Config): OsUser | null {
  return isRoot() ? { uid: config.uids.from, gid: config.uids.from } : null
}

/** Returns the user that runs the clusters of users' databases: the last configured uid when the server is root. */
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
  /** True for long-lived processes: they restart the embedded PostgreSQL when it ends. */
  readonly supervise: boolean
  readonly signal: AbortSignal
}): Promise<State> {
  const { config, logger, supervise, signal } = options
  const user = clusterUser(config)
  const directory = await openDataDirectory(config.dataDirectory, user)
  if (config.databaseUrl !== undefined) {
    const connection = { connectionString: config.databaseUrl }
    const handle = openDatabase({ ...connection, max: connectionBudget.requests.poolSize }, logger)
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
  const handle = openDatabase({ ...cluster.connection, max: connectionBudget.requests.poolSize }, logger)
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

/** Leaves out the address, because it holds a password. */
function unusableDatabase(error: unknown): Error {
  const reason = error instanceof Error ? (error.message === '' ? String(error) : error.message) : String(error)
  return new Error(
    `The PostgreSQL server in DATABASE_URL cannot be used: ${reason}. Check host, port, user, password and database in it, or unset it to use the embedded PostgreSQL.`,
    { cause: error },
  )
}
