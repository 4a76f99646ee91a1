import type { ClientConfig } from 'pg'
import type { Logger } from '../logger.ts'
import { NotLeading } from './epoch.ts'
import type { LockSession } from './lock-session.ts'
import { renewMs } from './timing.ts'
import { winLock } from './win-lock.ts'

/** The time in which a server leads: it holds the lock and renews its row. */
export interface Tenure {
  /** Gives the leadership up: another server may take it at once. */
  release(): Promise<void>
}

export interface TenureOptions {
  /** The session that has the lock. The tenure closes it. */
  readonly session: LockSession
  readonly epoch: number
  readonly connection: ClientConfig
  readonly logger: Logger
  /** Called at most once, when a later epoch has begun. */
  readonly onLost: (reason: NotLeading) => void
}

/**
 * Renews until `release` or until another server has begun an epoch. A lost connection (the database was restarted) does
 * not end the tenure: the lock is taken again, and the row decides.
 */
export function startTenure({ session, epoch, connection, logger, onLost }: TenureOptions): Tenure {
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
        // The end of the connection releases the lock too.
      }
      await current?.close()
      current = null
    },
  }
}

/** Notes in the leadership's row that this epoch goes on, unless a later one has begun. */
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
