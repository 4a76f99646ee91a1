import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type ClientConfig } from 'pg'
import { endedOrAborted, sleepUntilAborted } from '../abort.ts'
import type { Logger } from '../logger.ts'

/** `fairsrv1` in ASCII, as the 64-bit key of an advisory lock. */
const lockKey = Buffer.from('fairsrv1').readBigInt64BE().toString()

/** PostgreSQL may take a moment to notice that the connection of a killed server is gone. */
const takeoverTimeoutMs = 5_000
const retryMs = 250
const settlePollMs = 20

export interface ServerLock {
  /** Resolves when the connection is closed, also while the database is unreachable. */
  release(): Promise<void>
}

/**
 * Takes the lock that one server at a time holds on a database for its whole life. When the connection is lost (because
 * the database restarted) the lock is taken again; `onLost` is called when another server has taken it first.
 * Resolves when the transactions of a killed predecessor have ended; rejects when another server holds the lock.
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

  await untilTransactionsEnd(first).catch(async (error: unknown) => {
    await first.end().catch(() => undefined)
    throw error
  })

  const keepLock = async (): Promise<void> => {
    let client: Client | null = first
    while (client !== null) {
      client.on('error', (error) => logger.warn({ err: error }, "the connection that holds the server's lock was lost"))
      await untilEnded(client, signal)
      // This also closes a connection that took the lock again just as it was to be released.
      await client.end().catch(() => undefined)
      client = signal.aborted ? null : await takeOnceReachable(connection, signal)
    }
    if (!signal.aborted) onLost()
  }
  const keeping = keepLock()

  return {
    async release() {
      releasing.abort()
      await keeping
    },
  }
}

/**
 * Waits until no transaction of a killed server is in progress: PostgreSQL may still be working on its last COMMIT. A
 * server that read the state before that ended would remove resources that the committed rows then refer to.
 */
async function untilTransactionsEnd(client: Client): Promise<void> {
  const until = performance.now() + takeoverTimeoutMs
  while (performance.now() < until) {
    const { rowCount } = await client.query(
      `select from pg_stat_activity where application_name = 'fairlead' and datname = current_database()
       and backend_xid is not null limit 1`,
    )
    if (rowCount === 0) return
    await sleep(settlePollMs)
  }
}

function untilEnded(client: Client, signal: AbortSignal): Promise<void> {
  return endedOrAborted(new Promise<void>((done) => void client.once('end', () => done())), signal)
}

/** Returns the connection that holds the lock; `null` when another server has it, or `signal` aborts first. */
async function take(connection: ClientConfig, signal: AbortSignal): Promise<Client | null> {
  let refusedAt: number | undefined
  while (!signal.aborted) {
    const client = await tryLock(connection)
    if (client !== null) return client
    refusedAt ??= performance.now()
    if (performance.now() - refusedAt > takeoverTimeoutMs) break
    await sleepUntilAborted(retryMs, signal)
  }
  return null
}

async function takeOnceReachable(connection: ClientConfig, signal: AbortSignal): Promise<Client | null> {
  while (!signal.aborted) {
    try {
      return await take(connection, signal)
    } catch {
      await sleepUntilAborted(retryMs, signal)
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
  // Without a listener an error would end the process. The query that fails reports it.
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
