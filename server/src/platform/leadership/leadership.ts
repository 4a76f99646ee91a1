import { setTimeout as sleep } from 'node:timers/promises'
import { type ClientConfig, DatabaseError, type Pool, type PoolConfig } from 'pg'
import { endedOrAborted, sleepUntilAborted } from '../abort.ts'
import { connectionBudget } from '../database/connection-budget.ts'
import type { Database, DatabaseHandle } from '../database.ts'
import type { Logger } from '../logger.ts'
import { endOlderSessions, NotLeading, openFencedDatabase, recordEpoch, recordedEpoch } from './epoch.ts'
import {
  type Attempt,
  afterFailureMs,
  type LockSession,
  pollMs,
  renewMs,
  settlePollMs,
  settleTimeoutMs,
  winLock,
} from './lock.ts'
import { aloneError, conflictMs } from './servers.ts'

/** The leader's access to the database. Every write is refused once a later epoch has begun. */
export interface LeaderState {
  readonly db: Database
  readonly pool: Pool
}

export interface Leadership {
  /** Counts the takeovers. It is higher than the epoch of every earlier leader. */
  readonly epoch: number
  /** Milliseconds by which the database's clock was set back since the last leader renewed; 0 if it was not. */
  readonly clockBackMs: number
  readonly state: LeaderState
  /** Aborts when the leadership is lost, or was given up and the work has ended. */
  readonly signal: AbortSignal
}

export interface LeaderWork {
  /**
   * Ends the work. It is called once, also after the leadership was lost. The server contends again after it resolves.
   */
  stop(): Promise<void>
}

export interface CampaignOptions extends Candidate {
  readonly connection: PoolConfig
  readonly logger: Logger
  /** Starts the work. If it rejects, the server gives the leadership up and contends again after a pause. */
  readonly lead: (leadership: Leadership) => Promise<LeaderWork>
  readonly onFailed?: (error: unknown) => void
}

export interface Campaign {
  /** True after the work has started, until it begins to stop. */
  isLeader(): boolean
  /** Resolves when this server leads or has seen another leader. Rejects when its first attempt to lead fails. */
  readonly ready: Promise<void>
  stop(): Promise<void>
}

/**
 * Contends for the leadership until `stop`. One server of a database leads at a time. Each leader begins an epoch, and
 * leaders of earlier epochs can no longer write.
 */
export function startCampaign(options: CampaignOptions): Campaign {
  const { connection, logger } = options
  const stopping = new AbortController()
  const { signal } = stopping
  const ready = Promise.withResolvers<void>()
  ready.promise.catch(() => undefined)
  const status = { leading: false }
  const onLeading = (leading: boolean) => {
    status.leading = leading
    if (leading) ready.resolve()
  }

  const onRefused = ({ holder, silent }: Attempt) => {
    if (holder !== null && !silent) ready.resolve()
    return true
  }
  const contend = async (): Promise<void> => {
    let reachable = true
    const onError = (error: unknown) => {
      if (reachable) logger.warn({ err: error }, 'cannot contend for the leadership; trying again')
      reachable = false
    }
    const session = await winLock({ connection, onRefused, onError }, signal)
    if (session !== null) await serve(session, options, onLeading, signal)
  }

  const campaign = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        await contend()
      } catch (error) {
        if (signal.aborted) break
        logger.error({ err: error }, 'this server cannot lead')
        ready.reject(error)
        options.onFailed?.(error)
        await sleepUntilAborted(afterFailureMs, signal)
      }
    }
    ready.reject(new Error('the server is stopping'))
  }
  const running = campaign()

  return {
    isLeader: () => status.leading,
    ready: ready.promise,
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await running
    },
  }
}

/** Repeats work on the database until it succeeds. Rejects with errors that a retry cannot fix. */
export async function onceDatabaseIsBack<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    signal.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      // Any error other than a `DatabaseError` comes from the connection.
      if (signal.aborted || (error instanceof DatabaseError && !isPassing(error))) throw error
      await sleepUntilAborted(pollMs, signal)
    }
  }
}

/** Leads with the lock until the leadership is lost or `stopping` aborts. Rejects when the work cannot start. */
async function serve(
  session: LockSession,
  options: CampaignOptions,
  onLeading: (leading: boolean) => void,
  stopping: AbortSignal,
): Promise<void> {
  const { connection, logger } = options
  const begun = await beginEpoch(session, options).catch(async (error: unknown) => {
    const away = session.isEnded() || isPassing(error)
    await session.close()
    if (!away) throw error
    logger.warn({ err: error }, 'the database was away when this server was to lead; contending again')
    return null
  })
  if (begun === null) return
  const { epoch, clockBackMs } = begun
  const over = new AbortController()
  const onLost = (reason: Error) => {
    logger.warn({ err: reason }, 'the leadership was lost')
    over.abort(reason)
  }
  const lease = startLease({ session, epoch, connection, logger, onLost })
  const database = openFencedDatabase({ ...connection, max: connectionBudget.leader.poolSize }, epoch, logger)
  // A stop interrupts the start. After the start, it ends the work in order.
  const start = async () => {
    const interrupt = () => over.abort(stopping.reason)
    stopping.addEventListener('abort', interrupt)
    try {
      return await options.lead({ epoch, clockBackMs, state: database, signal: over.signal })
    } finally {
      stopping.removeEventListener('abort', interrupt)
    }
  }
  let work: LeaderWork | undefined
  try {
    await fenceOff(database.pool, epoch, options.epochDirectory, AbortSignal.any([over.signal, stopping]))
    logger.info({ epoch }, 'this server leads')
    work = await start()
    onLeading(!over.signal.aborted)
    await endedOrAborted(new Promise(() => undefined), AbortSignal.any([over.signal, stopping]))
  } catch (error) {
    // After the leadership was lost, every step fails, which says nothing about this server.
    if (!over.signal.aborted && !stopping.aborted) throw error
  } finally {
    onLeading(false)
    await stepDown({ work, database, lease, over }, logger)
  }
}

/** Ends the work before it releases the lock, so two leaders overlap only when the older one lost its leadership. */
async function stepDown(
  given: {
    readonly work: LeaderWork | undefined
    readonly database: DatabaseHandle
    readonly lease: Lease
    readonly over: AbortController
  },
  logger: Logger,
): Promise<void> {
  const { work, database, lease, over } = given
  await work?.stop().catch((error: unknown) => logger.error({ err: error }, 'the work of the leader did not stop'))
  over.abort(new Error('the leadership was given up'))
  const closing = database.close().catch(() => undefined)
  // A connection that never returns to the pool must not delay the release. The next leader ends it.
  await endedOrAborted(closing, AbortSignal.timeout(settleTimeoutMs))
  await lease.release()
}

/** The time in which a server leads: it holds the lock and renews its row. */
interface Lease {
  /** Gives the leadership up: another server may take it at once. */
  release(): Promise<void>
}

export interface LeaseOptions {
  readonly session: LockSession
  readonly epoch: number
  readonly connection: ClientConfig
  readonly logger: Logger
  /** Called at most once, when a later epoch has begun. */
  readonly onLost: (reason: NotLeading) => void
}

/**
 * Renews until `release`, or until another server has begun an epoch. When the connection is lost (the database was
 * restarted), the server takes the lock again, and the epoch in the row decides.
 */
function startLease({ session, epoch, connection, logger, onLost }: LeaseOptions): Lease {
  const releasing = new AbortController()
  const { signal } = releasing
  let current: LockSession | null = session

  /** Takes the lock again, unless a later epoch has begun. */
  const retake = async (): Promise<LockSession | null> => {
    let unreachable = false
    const taken = await winLock(
      {
        connection,
        onRefused: (attempt) => attempt.epoch <= epoch,
        onError: (error) => {
          if (!unreachable) logger.warn({ err: error }, 'cannot take the leadership again yet')
          unreachable = true
        },
      },
      signal,
    )
    await taken?.query('set synchronous_commit = off').catch(() => undefined)
    return taken
  }

  const keep = async (): Promise<void> => {
    while (!signal.aborted && current !== null) {
      const outcome = await renew(current, epoch, (error) => {
        if (!signal.aborted) logger.warn({ err: error }, 'the connection that holds the leadership was lost')
      })
      if (outcome === 'renewed') {
        await current.wait(renewMs, signal)
        continue
      }
      await current.close()
      current = outcome === 'lost' ? null : await retake()
    }
    if (!signal.aborted) onLost(new NotLeading(epoch, 'a later epoch has begun'))
  }
  const keeping = keep()

  return {
    async release() {
      releasing.abort()
      await keeping
      try {
        await current?.query('update leadership set holder = null where epoch = $1', [epoch])
        await current?.unlock()
      } catch {
        // The end of the connection releases the lock, too.
      }
      await current?.close()
      current = null
    },
  }
}

async function renew(
  session: LockSession,
  epoch: number,
  onError: (error: unknown) => void,
): Promise<'renewed' | 'lost' | 'disconnected'> {
  try {
    const rows = await session.query(
      'update leadership set renewed_at = clock_timestamp() where epoch = $1 returning epoch',
      [epoch],
    )
    return rows.length === 0 ? 'lost' : 'renewed'
  } catch (error) {
    onError(error)
    return 'disconnected'
  }
}

interface Candidate {
  readonly server: { readonly id: string; readonly dataDirectory: string }
  readonly epochDirectory: string
}

export interface EpochStart {
  readonly epoch: number
  /** As in `Leadership`. */
  readonly clockBackMs: number
}

/**
 * Begins the next epoch. Its number is higher than the epochs in the database and in the folder, so no epoch is used
 * twice, even after the database was restored from a backup.
 */
async function beginEpoch(session: LockSession, { server, epochDirectory }: Candidate): Promise<EpochStart> {
  const [last] = await session.query<{ ahead: number }>(
    'select (extract(epoch from renewed_at - clock_timestamp()) * 1000)::float8 as ahead from leadership',
  )
  const [row] = await session.query<{ epoch: string }>(
    `update leadership set epoch = greatest(epoch, $1::bigint) + 1, holder = $2, renewed_at = clock_timestamp(),
       data_directory = $3
     where not exists (select from servers where data_directory <> $3
       and abs(extract(epoch from clock_timestamp() - seen_at)) * 1000 < $4::float8)
     returning epoch`,
    [await recordedEpoch(epochDirectory), server.id, server.dataDirectory, conflictMs],
  )
  if (row === undefined) throw aloneError()
  // From here on the session only renews, once a second. These writes need not wait for the disk.
  await session.query('set synchronous_commit = off')
  return { epoch: Number(row.epoch), clockBackMs: Math.max(0, last?.ahead ?? 0) }
}

/**
 * Shuts out older leaders: their database connections end, and `EpochFence` refuses their effects outside the database.
 * Then waits for running transactions of requests.
 */
export async function fenceOff(pool: Pool, epoch: number, directory: string, signal: AbortSignal): Promise<void> {
  await recordEpoch(directory, epoch)
  await onceDatabaseIsBack(() => untilOlderSessionsEnd(pool, epoch, signal), signal)
  await onceDatabaseIsBack(() => untilRequestsEnd(pool, signal), signal)
}

async function untilOlderSessionsEnd(pool: Pool, epoch: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const { rowCount } = await pool.query(endOlderSessions, [epoch])
    if (rowCount === 0) return
    await sleep(settlePollMs, undefined, { signal })
  }
}

/**
 * Waits until the current transactions of requests have ended: PostgreSQL may still be working on the last COMMIT of a
 * killed server. A leader that reads the state before this COMMIT ends would remove resources that the committed rows
 * refer to. Later transactions notify the leader as usual.
 */
async function untilRequestsEnd(pool: Pool, signal: AbortSignal): Promise<void> {
  const since = await pool.query<{ now: string }>('select clock_timestamp()::text as now')
  const until = performance.now() + settleTimeoutMs
  while (performance.now() < until) {
    const { rowCount } = await pool.query(
      `select from pg_stat_activity where application_name = 'fairlead' and datname = current_database()
       and backend_xid is not null and xact_start < $1::timestamptz limit 1`,
      [since.rows[0]?.now],
    )
    if (rowCount === 0) return
    await sleep(settlePollMs, undefined, { signal })
  }
}

/** PostgreSQL's error classes: 08 connection exception, 53 insufficient resources, 57 operator intervention. */
const passing = /^(08|53|57)/

/** True for a temporary error of PostgreSQL: a later attempt may succeed. */
function isPassing(error: unknown): boolean {
  return error instanceof DatabaseError && passing.test(error.code ?? '')
}
