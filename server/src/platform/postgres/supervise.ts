import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { attach } from './attach.ts'
import type { Session } from './session.ts'
import type { ClusterContext } from './start.ts'

const attachDeadlineMs = 120_000
/** After running this long a cluster counts as stable: the back-off starts again at zero. */
const stableMs = 60_000

export interface Supervision {
  /** Ends the supervision and returns the current session, or the last one when PostgreSQL is down. */
  stop(): Promise<Session>
}

/** Returns the pause before the next attempt: 1 s, doubled each time, at most 30 s. */
export function nextPause(pauseMs: number): number {
  return Math.min(30_000, Math.max(1000, pauseMs * 2))
}

/**
 * Restores the session whenever it is lost, and starts the postmaster when it has died. The loss of the connection
 * reveals both without polling: the backend of an idle session ends with its postmaster, no matter which process
 * started the postmaster.
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
          if (!signal.aborted) logger.error({ err: error, pauseMs }, 'PostgreSQL could not be started again')
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
