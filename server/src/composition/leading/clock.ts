import { watchClock } from '../../platform/clock.ts'
import { bringJobsForward } from '../../platform/jobs.ts'
import type { WebhooksWork } from '../../webhooks/index.ts'
import type { Composition } from '../composition.ts'

/**
 * Brings waiting jobs and deliveries forward when the clock is set back, so that their wait does not grow. Rate
 * windows, leases and leadership need no correction.
 *
 * @param given.backMs how far the clock was set back since another server led
 */
export function leadClock(
  { logger, state, stack }: Pick<Composition, 'logger' | 'state' | 'stack'>,
  given: { readonly backMs: number; readonly deliveries: WebhooksWork },
): void {
  const watch = watchClock(
    {
      async onBack(ms) {
        await state.db.transaction().execute(async (transaction) => {
          await bringJobsForward(transaction, ms)
          await given.deliveries.bringForward(transaction, ms)
        })
        logger.warn({ ms: Math.round(ms) }, 'the clock was set back; what waits for a later time was brought forward')
        given.deliveries.wake()
      },
      onError: (error) => logger.error({ err: error }, 'due times cannot be corrected yet'),
    },
    given.backMs,
  )
  stack.defer('clock', () => watch.stop())
}
