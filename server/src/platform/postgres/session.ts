import { realpath } from 'node:fs/promises'
import pg from 'pg'
import { unlessAborted } from '../abort.ts'
import { clusterUser } from './initialise.ts'
import { findPostmaster, type PostmasterLock, stopPostmaster } from './postmaster.ts'

/** `fairlead` in ASCII, as the key of an advisory lock. */
const membershipKey = Buffer.from('fairlead').readBigInt64BE().toString()

export interface ClusterConnection {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
  /** Set here, so that PGSSLMODE in the server's environment has no effect. */
  readonly ssl: false
}

/**
 * A connection with a shared advisory lock, by which the processes that use a cluster know of each other. All connect
 * to the database `postgres`, because such locks belong to one database, and a database with connections cannot be a
 * template.
 */
export interface Session {
  readonly pid: number
  readonly connection: ClusterConnection
  /** Resolves when the connection is closed, by either side. */
  readonly lost: Promise<void>
  isLost(): boolean
  /**
   * Gives up the membership. Returns true when no other process uses the cluster; in that case, none can join it before
   * `end`.
   */
  leave(): Promise<boolean>
  end(): Promise<void>
}

/** Codes of Node or PostgreSQL for temporary errors: the server is not there yet, is starting, or is shutting down. */
const temporary = new Set([
  'ENOENT', // no socket
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'EAGAIN', // the socket's queue is full
  '53300', // too_many_connections
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now
])

/**
 * Joins the cluster that `postmaster` runs on `directory`, and creates the database `database` when it is missing.
 * Returns null when the server accepts no connections at the moment, or is shutting down.
 */
export async function joinCluster(
  postmaster: Pick<PostmasterLock, 'pid' | 'port' | 'socketDirectory'>,
  directory: string,
  database: string,
  signal: AbortSignal,
): Promise<Session | null> {
  signal.throwIfAborted()
  const { pid, port, socketDirectory: host } = postmaster
  const connection: ClusterConnection = { host, port, user: clusterUser, database, ssl: false }
  const client = new pg.Client({
    ...connection,
    database: 'postgres',
    application_name: 'fairlead membership',
    connectionTimeoutMillis: 10_000,
  })
  const { promise: lost, resolve } = Promise.withResolvers<void>()
  let ended = false
  client.on('end', () => {
    ended = true
    resolve()
  })
  // Without a listener, the error would end the process. The next query, or the end of the connection, reports it, too.
  client.on('error', () => undefined)
  const end = async () => {
    if (!ended) await client.end()
  }
  try {
    await unlessAborted(becomeMember(client, directory, connection), signal)
  } catch (error) {
    // Not awaited: a server that hangs does not close its side.
    void end()
    if (!signal.aborted && isTemporary(error)) return null
    throw error
  }
  return { pid, connection, lost, isLost: () => ended, leave: () => giveUpMembership(client), end }
}

const joinDeadlineMs = 5_000

/**
 * Stops the cluster in a folder, if it runs. Returns true when it did.
 *
 * @param options.force false to leave it running while other processes are its members
 */
export async function stopRunningCluster(directory: string, { force }: { readonly force: boolean }): Promise<boolean> {
  const postmaster = await findPostmaster(directory)
  if (postmaster === null) return false
  const real = await realpath(directory)
  if (force) {
    await stopPostmaster(postmaster.pid, real)
    return true
  }
  const session = await joinCluster(postmaster, real, 'postgres', AbortSignal.timeout(joinDeadlineMs))
  if (session === null) return false
  try {
    if (!(await session.leave())) return false
    await stopPostmaster(session.pid, real)
    return true
  } finally {
    await session.end()
  }
}

async function becomeMember(
  client: pg.Client,
  directory: string,
  { host, database }: Pick<ClusterConnection, 'host' | 'database'>,
): Promise<void> {
  await client.connect()
  const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory')
  const found = rows[0]?.data_directory ?? ''
  if ((await realpath(found)) !== (await realpath(directory))) {
    throw new Error(`The PostgreSQL that answers in ${host} serves ${found}, not ${directory}`)
  }
  // Waits while a member that leaves stops the cluster, which then closes this connection.
  await client.query('SELECT pg_advisory_lock_shared($1::bigint)', [membershipKey])
  await ensureDatabase(client, database)
}

async function giveUpMembership(client: pg.Client): Promise<boolean> {
  try {
    // Releases the shared lock before it tries the exclusive one: when several members leave at once, the last one gets
    // it.
    await client.query('SELECT pg_advisory_unlock_shared($1::bigint)', [membershipKey])
    const { rows } = await client.query<{ alone: boolean }>('SELECT pg_try_advisory_lock($1::bigint) AS alone', [
      membershipKey,
    ])
    return rows[0]?.alone ?? false
  } catch (error) {
    if (isTemporary(error)) return false
    throw error
  }
}

async function ensureDatabase(client: pg.Client, name: string): Promise<void> {
  const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [name])
  if (rowCount !== 0) return
  try {
    await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`)
  } catch (error) {
    // duplicate_database, or unique_violation when two processes create it at the same time.
    if (!['42P04', '23505'].includes((error as pg.DatabaseError).code ?? '')) throw error
  }
}

/**
 * True for an error that a later attempt may not meet. `pg` reports a connection that breaks during a query without a
 * code.
 */
function isTemporary(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string }
  return code === undefined
    ? /connection terminated|timeout expired|not queryable/i.test(message ?? '')
    : temporary.has(code)
}
