import type { Logger } from '../../platform/logger.ts'
import type { DueDelivery } from './due.ts'
import { messageOf } from './message.ts'
import type { Recorder } from './record.ts'
import { nextAfter } from './schedule.ts'
import type { Sender, SendResult } from './send.ts'

export interface AttemptDependencies {
  readonly sender: Sender
  readonly recorder: Recorder
  readonly logger: Logger
}

/**
 * Sends a delivery once and records the result. `onAnswer` is called in between: recording does not occupy the endpoint.
 * Resolves with the time of the next attempt, or `null` when there is none. Rejects with the signal's reason when that
 * aborted the attempt.
 */
export async function attempt(
  { sender, recorder, logger }: AttemptDependencies,
  delivery: DueDelivery,
  onAnswer: (result: SendResult) => void,
  signal: AbortSignal,
): Promise<{ readonly nextAt: Date | null }> {
  const at = new Date()
  const startedAt = performance.now()
  const message = messageOf(delivery, delivery.keys, at)
  const result = await sender.send(message, signal)
  const durationMs = performance.now() - startedAt
  onAnswer(result)
  // An attempt that the server's own stop has aborted does not count as a failure of the endpoint.
  if (!result.ok) signal.throwIfAborted()
  const status = result.answer?.status ?? null
  const retryAfter = result.answer?.headers['retry-after'] ?? null
  const next = nextAfter({ ok: result.ok, status, retryAfter }, delivery.failures, new Date(), Math.random())
  const { sendAgain } = await recorder.record({
    deliveryId: delivery.id,
    webhookId: delivery.webhookId,
    round: delivery.round,
    at,
    durationMs,
    url: message.url,
    requestHeaders: message.headers,
    result,
    next,
  })
  const about = { delivery: delivery.id, event: delivery.eventId, webhook: delivery.webhookId, status }
  if (result.ok) logger.debug(about, 'webhook delivered')
  else logger.info({ ...about, error: result.error }, 'webhook attempt failed')
  if (sendAgain) return { nextAt: new Date() }
  return { nextAt: next.status === 'pending' ? next.at : null }
}
