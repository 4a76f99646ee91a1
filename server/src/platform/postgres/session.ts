import { realpath } from 'node:fs/promises'
import pg from 'pg'
import { clusterUser } from './initialise.ts'
import type { PostmasterLock } from './lock-file.ts'

/** The name `fairlead` in ASCII, as the 64-bit key of an advisory lock. */
const membershipKey = Buffer.from('fairlead').readBigInt64BE().toString()

/** What `pg` needs to connect to a cluster's database as its superuser. */
export interface ClusterConnection {
  /** The folder of the socket. */
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
  /** Stated, so that PGSSLMODE in the server's environment has no say. */
  readonly ssl: false
}

/**
 * Membership in a running cluster: a connection that holds the shared advisory lock by which the processes that use
 * a cluster know of each other. It lies in the database `postgres`, because such locks belong to one database, and so
 * that `fairlead` stays free to serve as a template.
 */
export interface Session {
  readonly pid: number
  readonly connection: ClusterConnection
  /** Resolves when the connection is gone, whoever ended it. */
  readonly lost: Promise<void>
  isLost(): boolean
  /** Gives the membership up. True when nobody else uses the cluster; until `end`, nobody else can begin to. */
  leave(): Promise<boolean>
  end(): Promise<void>
}

/** Failures that pass: the server is not there yet, is starting, or is going down. By Node's or PostgreSQL's code. */
const passing = new Set([
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
 * Becomes a member of the cluster that `postmaster` runs on `directory`, and makes the database `database` when it
 * is missing. Null when the server does not take connections at the moment, or goes down meanwhile.
 */
export async function enter(
  postmaster: Pick<PostmasterLock, 'pid' | 'port' | 'socketDirectory'>,
  directory: string,
  database: string,
  signal: AbortSignal,
): Promise<Session | null> {
  signal.throwIfAborted()
  const connection = {
    host: postmaster.socketDirectory,
    port: postmaster.port,
    user: clusterUser,
    database,
    ssl: false,
  } as const
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
  // The next query or the end of the connection tells; without a listener the process would end.
  client.on('error', () => undefined)
  const end = async () => {
    if (!ended) await client.end()
  }
  async function join(): Promise<void> {
    await client.connect()
    const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory')
    const found = rows[0]?.data_directory ?? ''
    if ((await realpath(found)) !== (await realpath(directory))) {
      throw new Error(`The PostgreSQL that answers in ${connection.host} serves ${found}, not ${directory}`)
    }
    // Waits while one that leaves stops the cluster; then that ends this connection.
    await client.query('SELECT pg_advisory_lock_shared($1::bigint)', [membershipKey])
    await ensureDatabase(client, connection.database)
  }
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', abort)
  try {
    await Promise.race([join(), aborted.promise])
  } catch (error) {
    // Not awaited: a server that hangs does not close its side.
    void end()
    if (!signal.aborted && isPassing(error)) return null
    throw error
  } finally {
    signal.removeEventListener('abort', abort)
  }

  async function leave(): Promise<boolean> {
    try {
      // First down, then up: of several that leave at once, the last one finds itself alone.
      await client.query('SELECT pg_advisory_unlock_shared($1::bigint)', [membershipKey])
      const { rows } = await client.query<{ alone: boolean }>('SELECT pg_try_advisory_lock($1::bigint) AS alone', [
        membershipKey,
      ])
      return rows[0]?.alone ?? false
    } catch (error) {
      if (isPassing(error)) return false
      throw error
    }
  }
  return { pid: postmaster.pid, connection, lost, isLost: () => ended, leave, end }
}

async function ensureDatabase(client: pg.Client, name: string): Promise<void> {
  const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [name])
  if (rowCount !== 0) return
  try {
    await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`)
  } catch (error) {
    // duplicate_database, or unique_violation when two do it at the very same time.
    if (!['42P04', '23505'].includes((error as pg.DatabaseError).code ?? '')) throw error
  }
}

/** A connection that breaks under a query is reported by `pg` without a code. */
function isPassing(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string }
  return code === undefined
    ? /connection terminated|timeout expired|not queryable/i.test(message ?? '')
    : passing.has(code)
}
