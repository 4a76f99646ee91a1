import { sleepUntilAborted } from './abort.ts'
import type { Logger } from './logger.ts'

export interface PeriodicOptions {
  readonly name: string
  readonly everyMs: number
  readonly work: (signal: AbortSignal) => Promise<void>
  readonly logger: Pick<Logger, 'error'>
}

/**
 * Runs `work` at once and then `everyMs` after each run has ended. A failed run is logged; the next one tries again.
 */
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

/** Work that runs at intervals, and at once after a change. */
export interface Repeated {
  /** Runs the work at once; if it is already running, runs it once more afterwards. */
  wake(): void
  stop(): Promise<void>
}

/**
 * Runs `work` repeatedly. `work` resolves to the milliseconds until its next run, which `wake` can bring forward.
 *
 * @param firstWaitMs 0 to begin at once
 * @param onError returns the milliseconds until the next run after a rejection; not called after `stop`
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
      // Reset before the work, so that a change during the work leads to another run.
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
