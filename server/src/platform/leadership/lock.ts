import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type ClientConfig, DatabaseError } from 'pg'
import { endedOrAborted } from '../abort.ts'

/** The 64-bit key of the advisory lock: `fairsrv1` in ASCII. */
const lockKey = Buffer.from('fairsrv1').readBigInt64BE().toString()

/** The name of the sessions that contend for the lock. Only silent sessions with this name are ended. */
const sessionName = 'fairlead leadership'
const channel = 'fairlead_leadership'

export interface Attempt {
  readonly taken: boolean
  /** The newest epoch. It may have risen since the attempt, so a decision on it needs a conditional write. */
  readonly epoch: number
  /** The current or last leader; `null` after it gave the leadership up. */
  readonly holder: string | null
  /** True when the leader has not renewed in time, by the database's clock. */
  readonly silent: boolean
  /** The last renewal. Only compared for equality, because the database's clock may be set. */
  readonly renewed: string
  /** The session that holds the lock; `null` if no session with the name `sessionName` does. */
  readonly session: string | null
}

/** A dedicated connection that holds the lock or contends for it. It runs one query at a time. */
export interface LockSession {
  isEnded(): boolean
  tryLock(): Promise<Attempt>
  end(session: string): Promise<void>
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>
  unlock(): Promise<void>
  /** Resolves after `ms`, or earlier: on news about the lock, at the end of the connection, or when `signal` aborts. */
  wait(ms: number, signal: AbortSignal): Promise<void>
  /** Closes the connection, which releases the lock. Resolves even if the database does not answer. */
  close(): Promise<void>
}

const lockHolder = `
  select pid || ' ' || backend_start from pg_locks join pg_stat_activity using (pid)
  where locktype = 'advisory' and granted and objsubid = 1 and application_name = '${sessionName}'
    and database = (select oid from pg_database where datname = current_database())
    and classid = (($1::bigint >> 32) & 4294967295)::oid and objid = ($1::bigint & 4294967295)::oid`

async function openLockSession(connection: ClientConfig): Promise<LockSession> {
  const client = new Client({
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    query_timeout: queryTimeoutMs,
    ...connection,
  })
  const session = createLockSession(client)
  try {
    await client.connect()
    // A name in DATABASE_URL overrides a connection option, so a statement sets the name.
    await client.query(`set application_name = '${sessionName}'`)
    await client.query(`listen ${channel}`)
    return session
  } catch (error) {
    await session.close()
    throw error
  }
}

/** @param client not connected yet, so that no event is missed */
function createLockSession(client: Client): LockSession {
  let ended = false
  const end = Promise.withResolvers<void>()
  client.once('end', () => {
    ended = true
    end.resolve()
  })
  // Without a listener an error would end the process. The query that fails reports it.
  client.on('error', () => undefined)
  let news = Promise.withResolvers<void>()
  client.on('notification', () => news.resolve())
  const session: LockSession = {
    isEnded: () => ended,
    async tryLock() {
      const [row] = await session.query<Omit<Attempt, 'epoch'> & { readonly epoch: string }>(
        `select pg_try_advisory_lock($1::bigint) as taken, epoch, holder, (${lockHolder} limit 1) as session,
                renewed_at::text as renewed,
                abs(extract(epoch from clock_timestamp() - renewed_at)) * 1000 > $2::float8 as silent
         from leadership`,
        [lockKey, silentMs],
      )
      if (row === undefined) throw new Error('The table "leadership" is empty: restore the database from a backup.')
      return { ...row, epoch: Number(row.epoch) }
    },
    async end(other) {
      await session.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where pid || ' ' || backend_start = $1 and application_name = '${sessionName}'`,
        [other],
      )
    },
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      try {
        return (await client.query<Row>(text, [...values])).rows
      } catch (error) {
        // After a timeout, every later query would wait behind the unanswered one.
        if (!(error instanceof DatabaseError)) ended = true
        throw error
      }
    },
    async unlock() {
      await session.query(`select pg_advisory_unlock($1::bigint), pg_notify('${channel}', '')`, [lockKey])
    },
    async wait(ms, signal) {
      const over = new AbortController()
      const earlier = endedOrAborted(Promise.race([news.promise, end.promise]), signal)
      await Promise.race([earlier, sleep(ms, undefined, { signal: over.signal }).catch(() => undefined)])
      over.abort()
      news = Promise.withResolvers<void>()
    },
    close: () => closeClient(client),
  }
  return session
}

/** Ends the connection by the protocol. Destroys the socket when the database does not answer in time. */
async function closeClient(client: Client): Promise<void> {
  const over = new AbortController()
  const closed = client.end().catch(() => undefined)
  const late = sleep(closeTimeoutMs, 'late' as const, { signal: over.signal }).catch(() => undefined)
  if ((await Promise.race([closed, late])) === 'late') {
    const { connection } = client as unknown as { readonly connection: { readonly stream: { destroy(): void } } }
    connection.stream.destroy()
  }
  over.abort()
}

export interface Contest {
  readonly connection: ClientConfig
  /** Called after each attempt that did not get the lock. The contest ends when it returns false. */
  readonly onRefused: (attempt: Attempt) => boolean
  readonly onError: (error: unknown) => void
}

/**
 * Contends until this server wins, also while the database is unavailable. Ends the session of a leader that has not
 * renewed for `silentMs` by this process's clock. Returns the session with the lock; `null` when `onRefused` or
 * `signal` ended the contest.
 */
export async function winLock(contest: Contest, signal: AbortSignal): Promise<LockSession | null> {
  while (!signal.aborted) {
    let session: LockSession | undefined
    let outcome: 'won' | 'over' | 'disconnected' = 'disconnected'
    try {
      session = await openLockSession(contest.connection)
      outcome = await contend(session, contest, signal)
    } catch (error) {
      if (!signal.aborted) contest.onError(error)
    }
    if (outcome === 'won' && session !== undefined) return session
    await session?.close()
    if (outcome === 'over') return null
    await sleep(pollMs, undefined, { signal }).catch(() => undefined)
  }
  return null
}

async function contend(
  session: LockSession,
  { onRefused }: Contest,
  signal: AbortSignal,
): Promise<'won' | 'over' | 'disconnected'> {
  let seen = { session: null as string | null, renewed: '', since: 0 }
  while (!session.isEnded()) {
    if (signal.aborted) return 'over'
    const attempt = await session.tryLock()
    if (attempt.taken) return 'won'
    if (!onRefused(attempt)) return 'over'
    const { session: holder, renewed } = attempt
    if (holder !== seen.session || renewed !== seen.renewed) {
      seen = { session: holder, renewed, since: performance.now() }
    }
    const isSilent = holder !== null && performance.now() - seen.since >= silentMs
    if (isSilent) await session.end(holder)
    await session.wait(isSilent ? settlePollMs : pollMs, signal)
  }
  return 'disconnected'
}

/*
 * The times of leadership, in milliseconds. A killed leader gets a successor at the next poll. A paused leader gets a
 * successor within five seconds: 3 s until it counts as silent, and two polls.
 */

export const renewMs = 1_000
/** A silent leader has not renewed for this long: a contender that watched it may end its session. */
export const silentMs = 3_000
/** How often contenders try to take the lock. They are also notified at once when a leader releases it. */
export const pollMs = 250
/** How long a server waits before it contends again when it could not lead, or cannot reach the database. */
export const afterFailureMs = 2_000
const queryTimeoutMs = 5_000
const closeTimeoutMs = 1_000
/** How long transactions that a killed server began may take to end before a new leader begins. */
export const settleTimeoutMs = 5_000
export const settlePollMs = 20
