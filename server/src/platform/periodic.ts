import { sleepUntilAborted } from './abort.ts'
import type { Logger } from './logger.ts'

export interface PeriodicOptions {
  readonly name: string
  readonly everyMs: number
  readonly work: (signal: AbortSignal) => Promise<void>
  readonly logger: Pick<Logger, 'error'>
}

/** Runs `work` at once and then `everyMs` after each run has ended. A failed run is logged; the next one tries again. */
export function startPeriodic({ name, everyMs, work, logger }: PeriodicOptions): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  const running = (async () => {
    while (!signal.aborted) {
      await work(signal).catch((error: unknown) => {
        if (!signal.aborted) logger.error({ err: error }, `${name} failed`)
      })
      await sleepUntilAborted(everyMs, signal)
    }
  })()
  return {
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await running
    },
  }
}
