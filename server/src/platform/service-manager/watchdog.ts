import { sleepUntilAborted } from '../abort.ts'
import type { Logger } from '../logger.ts'

/**
 * Sends signs of life, three in each period of the watchdog, for as long as `check` comes to an end in time. Its result
 * does not matter: a database that is away is restored by its supervisor or its operator and not by a restart of the server.
 * A check that neither succeeds nor fails means that the server hangs. Resolves when `signal` aborts.
 */
export async function feedWatchdog(options: {
  readonly periodMs: number
  readonly check: (signal: AbortSignal) => Promise<unknown>
  readonly alive: () => Promise<void>
  readonly logger: Pick<Logger, 'error'>
  readonly signal: AbortSignal
}): Promise<void> {
  const { periodMs, check, alive, logger, signal } = options
  const stepMs = Math.max(1, Math.floor(periodMs / 3))
  while (!signal.aborted) {
    const deadline = AbortSignal.timeout(stepMs)
    await check(deadline).catch(() => undefined)
    // The stop may have begun during the check; no sign of life follows word of it.
    if (signal.aborted) return
    // A check that ends because its time is over has not come to an end by itself.
    if (!deadline.aborted) await alive()
    else
      logger.error(
        { deadline_ms: stepMs },
        'the server did not answer itself in time; systemd restarts it if that lasts',
      )
    await sleepUntilAborted(stepMs, signal)
  }
}
