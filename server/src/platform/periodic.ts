import { sleepUntilAborted } from './abort.ts'
import type { Logger } from './logger.ts'

export interface PeriodicOptions {
  readonly name: string
  readonly everyMs: number
  readonly work: (signal: AbortSignal) => Promise<void>
  readonly logger: Logger
}

/** Does something now and again and again, one at a time. What fails is logged and tried at the next time. */
export function startPeriodic({ name, everyMs, work, logger }: PeriodicOptions): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  const going = (async () => {
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
      await going
    },
  }
}
