import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { attach } from './attach.ts'
import type { Session } from './session.ts'
import type { ClusterContext } from './start.ts'

const attachDeadlineMs = 120_000
/** A cluster that ran this long has recovered: the next failure is answered at once again. */
const stableMs = 60_000

export interface Supervision {
  /** Ends the supervision and returns the present session, or the last one when PostgreSQL is down. */
  stop(): Promise<Session>
}

/** The pause before the next attempt: 1 s, doubled each time, at most 30 s. */
export function nextPause(pauseMs: number): number {
  return Math.min(30_000, Math.max(1000, pauseMs * 2))
}

/**
 * Restores a session whenever it is lost, and the postmaster with it when that has died. The loss of the connection is
 * the one signal that needs no polling and covers everything: the backend of an idle session ends with its postmaster,
 * whether this process started that or found it.
 */
export function superviseSession(context: ClusterContext, first: Session): Supervision {
  const { logger } = context
  const stopping = new AbortController()
  const { signal } = stopping
  const stopped = once(signal, 'abort')
  let session = first

  async function run(): Promise<void> {
    let pauseMs = 0
    for (;;) {
      const since = performance.now()
      await Promise.race([session.lost, stopped])
      if (signal.aborted) return
      if (performance.now() - since >= stableMs) pauseMs = 0
      logger.error({ pid: session.pid }, 'The connection to PostgreSQL was lost; restoring it')
      let next: Session | null = null
      while (next === null) {
        await delay(pauseMs, undefined, { signal })
        pauseMs = nextPause(pauseMs)
        next = await attach(context, signal, attachDeadlineMs).catch((error) => {
          if (!signal.aborted) logger.error({ err: error, pauseMs }, 'PostgreSQL could not be brought back')
          return null
        })
      }
      session = next
      logger.info({ pid: session.pid }, 'PostgreSQL is back')
    }
  }
  const running = run().catch((error) => {
    if (!signal.aborted) throw error
  })

  return {
    async stop() {
      stopping.abort()
      await running
      return session
    },
  }
}
