import type { Pool, PoolConfig } from 'pg'
import { endedOrAborted, sleepUntilAborted } from '../abort.ts'
import { connectionBudget } from '../database/connection-budget.ts'
import type { Database, DatabaseHandle } from '../database.ts'
import type { Logger } from '../logger.ts'
import { isPassing } from './away.ts'
import { openFencedDatabase } from './fenced-database.ts'
import type { Attempt, LockSession } from './lock-session.ts'
import { beginEpoch, fenceOff, type Taker } from './takeover.ts'
import { startTenure, type Tenure } from './tenure.ts'
import { afterFailureMs, settleTimeoutMs } from './timing.ts'
import { winLock } from './win-lock.ts'

/** The database as the leader uses it: every write is refused once a later epoch has begun. */
export interface LeaderState {
  readonly db: Database
  readonly pool: Pool
}

/** The leadership in one epoch, as the work of the leader gets it. */
export interface Leadership {
  /** Counts the take-overs; higher than that of every earlier leader. */
  readonly epoch: number
  /** How far the clock was set back since another server led last, in milliseconds. */
  readonly clockBackMs: number
  readonly state: LeaderState
  /** Aborts when the leadership is lost, or when it was given up and the work has ended. */
  readonly signal: AbortSignal
}

/** The work of a leader. */
export interface LeaderWork {
  /** Ends the work. Called once, also after the leadership was lost; the server contends again when it has resolved. */
  stop(): Promise<void>
}

export interface CampaignOptions extends Taker {
  readonly connection: PoolConfig
  readonly logger: Logger
  /** Starts the work. When it rejects, the leadership is given up for a moment and tried again. */
  readonly lead: (leadership: Leadership) => Promise<LeaderWork>
  /** Called when this server could not lead, with the reason. */
  readonly onFailed?: (error: unknown) => void
}

export interface Campaign {
  /** True from the moment at which the work has started until it begins to stop. */
  isLeader(): boolean
  /** Resolves when this server leads, or has seen that another one does. Rejects when it could not lead at first. */
  readonly ready: Promise<void>
  /** Ends the work and gives the leadership up, so that another server takes it at once. */
  stop(): Promise<void>
}

/**
 * Contends for the leadership from now on. One server of a database leads at a time; each time that one begins to lead,
 * it begins an epoch, and leaders of earlier epochs can write no more.
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

  const onRefused = refusals(ready, logger)
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

/**
 * Returns the function that is called with each attempt that did not get the lock. An older version holds it under
 * another name for its session; the campaign waits for it, and says so.
 */
function refusals(ready: PromiseWithResolvers<void>, logger: Logger): (attempt: Attempt) => boolean {
  let olderSince: number | undefined
  let told = false
  return ({ holder, silent, session }) => {
    if (holder !== null && !silent) ready.resolve()
    olderSince = session === null ? (olderSince ?? performance.now()) : undefined
    if (!told && olderSince !== undefined && performance.now() - olderSince > settleTimeoutMs) {
      told = true
      const error = new Error(
        'An older version of Fairlead, which works alone, is running on this database. Stop it, then start this one.',
      )
      logger.error({ err: error }, 'this server cannot lead yet')
      ready.reject(error)
    }
    return true
  }
}

/** Leads with the lock in hand until the leadership is lost or `stopping` aborts. Rejects when the work cannot start. */
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
  const tenure = startTenure({ session, epoch, connection, logger, onLost })
  const database = openFencedDatabase({ ...connection, max: connectionBudget.leader.poolSize }, epoch, logger)
  // A stop interrupts a start that is under way; afterwards it ends the work in order.
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
    // After the leadership was lost every step fails. That says nothing about this server.
    if (!over.signal.aborted && !stopping.aborted) throw error
  } finally {
    onLeading(false)
    await stepDown({ work, database, tenure, over }, logger)
  }
}

/** Ends the work before the lock is released, so that two leaders overlap only when one was lost. */
async function stepDown(
  given: {
    readonly work: LeaderWork | undefined
    readonly database: DatabaseHandle
    readonly tenure: Tenure
    readonly over: AbortController
  },
  logger: Logger,
): Promise<void> {
  const { work, database, tenure, over } = given
  await work?.stop().catch((error: unknown) => logger.error({ err: error }, 'the work of the leader did not stop'))
  over.abort(new Error('the leadership was given up'))
  const closing = database.close().catch(() => undefined)
  // A connection that is never returned must not keep the lock; the next leader ends it.
  await endedOrAborted(closing, AbortSignal.timeout(settleTimeoutMs))
  await tenure.release()
}
