import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { PoolConfig } from 'pg'
import type { Config } from './config.ts'
import { type DataDirectory, dataDirectoryAt, openDataDirectory } from './data-directory.ts'
import { connectionBudget } from './database/connection-budget.ts'
import { connectionTo } from './database/hosts.ts'
import { revokePublicAccess } from './database/public-access.ts'
import { type Database, type DatabaseHandle, openDatabase } from './database.ts'
import { releaseBallast } from './disk/free-space.ts'
import type { Logger } from './logger.ts'
import { migrations } from './migrations/index.ts'
import { SchemaError } from './migrations/schema.ts'
import { type CloseOptions, openCluster } from './postgres/cluster.ts'
import { prepareSchema } from './schema.ts'
import type { OsUser } from './users.ts'

/** Data directory and database, open for the server or for a command beside it. */
export interface State extends DatabaseHandle {
  readonly directory: DataDirectory
  /** The settings for connections outside the pool. */
  readonly connection: PoolConfig
  /**
   * Closes the connections, and stops the embedded PostgreSQL when no other process uses it and the options do not keep
   * it.
   */
  close(options?: CloseOptions): Promise<void>
}

/**
 * Returns the user that runs the embedded PostgreSQL cluster when the server is root: the owner of the cluster,
 * initially the first configured uid.
 */
export function clusterUser({ dataDirectory, uids }: Pick<Config, 'dataDirectory' | 'uids'>): OsUser | null {
  return isRoot() ? ownerOr(dataDirectoryAt(dataDirectory).cluster, uids.from) : null
}

/**
 * Returns the user that runs git when the server is root: the owner of git's folder, initially the second to last
 * configured uid. Returns `null` when the server is not root.
 */
export function gitUser({ dataDirectory, uids }: Pick<Config, 'dataDirectory' | 'uids'>): OsUser | null {
  return isRoot() ? ownerOr(join(dataDirectoryAt(dataDirectory).git, 'home'), uids.to - 1) : null
}

/**
 * Returns the user that runs the clusters of users' databases when the server is root: the owner of the existing
 * clusters, initially the last configured uid.
 */
export function databasesUser({ dataDirectory, uids }: Pick<Config, 'dataDirectory' | 'uids'>): OsUser | null {
  if (!isRoot()) return null
  const { databases } = dataDirectoryAt(dataDirectory)
  const [version = ''] = namesIn(databases)
  return ownerOr(join(databases, version, 'data'), uids.to)
}

/**
 * Returns the user that runs the gateway when the server is root: the owner of its folder, initially the third to last
 * configured uid. This user has access only to the folders of static sites.
 */
export function gatewayUser({ dataDirectory, uids }: Pick<Config, 'dataDirectory' | 'uids'>): OsUser | null {
  return isRoot() ? ownerOr(dataDirectoryAt(dataDirectory).gateway, uids.to - 2) : null
}

/** The folder is the record of its user: a range that was widened later does not change it. */
function ownerOr(path: string, uid: number): OsUser {
  const owner = statSync(path, { throwIfNoEntry: false })?.uid ?? 0
  return owner === 0 ? { uid, gid: uid } : { uid: owner, gid: owner }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
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
    try {
      await prepare(handle.db)
      if (supervise) await revokePublicAccess(handle.pool, logger)
    } catch (error) {
      await handle.close()
      throw error instanceof SchemaError ? error : unusableDatabase(error)
    }
    return { ...handle, directory, connection }
  }
  const cluster = await openCluster({
    directory: directory.cluster,
    runtimeDirectory: directory.runtime,
    user,
    makeRoom: () => releaseBallast(directory.root, logger),
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
