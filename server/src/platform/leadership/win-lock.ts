import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientConfig } from 'pg'
import { type Attempt, type LockSession, openLockSession } from './lock-session.ts'
import { pollMs, settlePollMs, silentMs } from './timing.ts'

export interface Contest {
  readonly connection: ClientConfig
  /** Called after each attempt that did not get the lock. The contest ends when it returns false. */
  readonly onRefused: (attempt: Attempt) => boolean
  /** Called when the database cannot be reached. */
  readonly onError: (error: unknown) => void
}

/**
 * Contends for the lock until it is won, also while the database is away for some time. The session of a leader that has
 * not renewed for `silentMs`, by the clock of this process, is ended. Returns the session that holds the lock; `null` when
 * `onRefused` or `signal` ended the contest.
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
