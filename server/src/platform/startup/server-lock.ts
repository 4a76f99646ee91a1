import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type ClientConfig } from 'pg'
import { endedOrAborted, sleepUntilAborted } from '../abort.ts'
import type { Logger } from '../logger.ts'

/** `fairsrv1` in ASCII, as the 64-bit key of an advisory lock. */
const lockKey = Buffer.from('fairsrv1').readBigInt64BE().toString()

/** PostgreSQL may notice a moment later that the connection of a server that was killed is gone. */
const patienceMs = 5_000
const pauseMs = 250
const settlePauseMs = 20

export interface ServerLock {
  /** Resolves when no connection is left, also while the database is away. */
  release(): Promise<void>
}

/**
 * Takes the lock that one server at a time holds on a database, for as long as it lives. When the connection is lost
 * (the database was restarted) it is taken again; `onLost` is called if another server was faster.
 * Resolves when what a killed server has left is settled; rejects when another server holds it.
 */
export async function takeServerLock(options: {
  readonly connection: ClientConfig
  readonly logger: Logger
  readonly onLost: () => void
}): Promise<ServerLock> {
  const { connection, logger, onLost } = options
  const releasing = new AbortController()
  const { signal } = releasing
  const first = await take(connection, signal)
  if (first === null) {
    throw new Error(
      'Another Fairlead server is running on this database. Stop it first, or use another data directory.',
    )
  }

  await untilSettled(first).catch(async (error: unknown) => {
    await first.end().catch(() => undefined)
    throw error
  })

  const keep = async (): Promise<void> => {
    let client: Client | null = first
    while (client !== null) {
      client.on('error', (error) => logger.warn({ err: error }, "the connection of the server's lock was lost"))
      await untilEnded(client, signal)
      // Also what was taken just as the lock was to be given back is given back.
      await client.end().catch(() => undefined)
      client = signal.aborted ? null : await takeOnceReachable(connection, signal)
    }
    if (!signal.aborted) onLost()
  }
  const keeping = keep()

  return {
    async release() {
      releasing.abort()
      await keeping
    },
  }
}

/**
 * A server that was killed may have sent a COMMIT on which PostgreSQL still works. Whoever looks at the state before that
 * has ended would put away what then belongs to something.
 */
async function untilSettled(client: Client): Promise<void> {
  const until = performance.now() + patienceMs
  while (performance.now() < until) {
    const { rowCount } = await client.query(
      `select from pg_stat_activity where application_name = 'fairlead' and datname = current_database()
       and backend_xid is not null limit 1`,
    )
    if (rowCount === 0) return
    await sleep(settlePauseMs)
  }
}

function untilEnded(client: Client, signal: AbortSignal): Promise<void> {
  return endedOrAborted(new Promise<void>((done) => void client.once('end', () => done())), signal)
}

/** The connection that holds the lock; `null` when another server has it, or `signal` aborts before it is taken. */
async function take(connection: ClientConfig, signal: AbortSignal): Promise<Client | null> {
  let refusedAt: number | undefined
  while (!signal.aborted) {
    const client = await tryLock(connection)
    if (client !== null) return client
    refusedAt ??= performance.now()
    if (performance.now() - refusedAt > patienceMs) break
    await sleepUntilAborted(pauseMs, signal)
  }
  return null
}

async function takeOnceReachable(connection: ClientConfig, signal: AbortSignal): Promise<Client | null> {
  while (!signal.aborted) {
    try {
      return await take(connection, signal)
    } catch {
      await sleepUntilAborted(pauseMs, signal)
    }
  }
  return null
}

async function tryLock(connection: ClientConfig): Promise<Client | null> {
  const client = new Client({
    application_name: 'fairlead-server',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    ...connection,
  })
  // Reported by the query that it breaks.
  client.on('error', () => undefined)
  let taken = false
  try {
    await client.connect()
    const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [lockKey])
    taken = rows[0]?.taken === true
  } finally {
    if (!taken) await client.end().catch(() => undefined)
  }
  return taken ? client : null
}
