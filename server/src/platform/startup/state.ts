import type { PoolConfig } from 'pg'
import type { Config } from '../config.ts'
import { connectionBudget } from '../database/connection-budget.ts'
import { connectionTo } from '../database/hosts.ts'
import { type Database, type DatabaseHandle, openDatabase } from '../database.ts'
import type { Logger } from '../logger.ts'
import { migrations } from '../migrations/index.ts'
import { SchemaError } from '../migrations/schema.ts'
import { type CloseOptions, openCluster } from '../postgres/cluster.ts'
import type { OsUser } from '../users.ts'
import { type DataDirectory, openDataDirectory } from './data-directory.ts'
import { prepareSchema } from './schema.ts'

/** The data directory and the database of a server, open for the server itself or for a command beside it. */
export interface State extends DatabaseHandle {
  readonly directory: DataDirectory
  /** For connections outside the pool. */
  readonly connection: PoolConfig
  /** Closes the connections, and stops the embedded PostgreSQL when nobody else uses it and it is not to be kept. */
  close(options?: CloseOptions): Promise<void>
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
 * Opens the data directory and the database in it (or the operator's), with a schema that this version works
 * on: see `prepareSchema`. Any number of processes may have them open at once.
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
  const prepare = (db: Database) =>
    prepareSchema({ db, migrations, logger, signal, program: supervise ? 'server' : 'command' })
  if (config.databaseUrl !== undefined) {
    const connection = connectionTo(config.databaseUrl)
    const handle = openDatabase({ ...connection, max: connectionBudget.requests.poolSize }, logger)
    await prepare(handle.db).catch(async (error: unknown) => {
      await handle.close()
      throw error instanceof SchemaError ? error : unusableDatabase(error)
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
  const close = async (options?: CloseOptions) => {
    await handle.close()
    await cluster.close(options)
  }
  try {
    await prepare(handle.db)
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
