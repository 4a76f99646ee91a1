import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../platform/logger.ts'

const everyMs = 60 * 60 * 1000

/** Removes what has had its time, now and every hour until the signal aborts. */
export async function keepTidy(
  chores: readonly (() => Promise<void>)[],
  { logger, signal }: { logger: Logger; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    for (const chore of chores) {
      await chore().catch((error: unknown) => logger.warn({ err: error }, 'what is too old could not be removed'))
    }
    await sleep(everyMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}
