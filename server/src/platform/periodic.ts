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

/** Work that is repeated when it is time, and at once when something has changed. */
export interface Repeated {
  /** Lets the work run again at once; when it runs, once more after that. */
  wake(): void
  stop(): Promise<void>
}

/**
 * Runs `work` again and again: after the milliseconds with which it resolves, or sooner when it is woken.
 *
 * @param firstWaitMs 0 to begin at once
 * @param onError returns the milliseconds until the next run after one that has rejected; not called once it is stopped
 */
export function startRepeated(
  work: () => Promise<number>,
  onError: (error: unknown) => number,
  firstWaitMs = 0,
): Repeated {
  const stopping = new AbortController()
  let woken = new AbortController()

  const run = async (): Promise<void> => {
    for (let waitMs = firstWaitMs; ; ) {
      if (waitMs > 0) await sleepUntilAborted(waitMs, AbortSignal.any([stopping.signal, woken.signal]))
      if (stopping.signal.aborted) return
      // Before the work: a change that is told from here on is seen by the next run.
      if (woken.signal.aborted) woken = new AbortController()
      waitMs = await work().catch((error: unknown) => (stopping.signal.aborted ? 0 : onError(error)))
    }
  }

  const running = run()
  return {
    wake: () => woken.abort(),
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await running
    },
  }
}
