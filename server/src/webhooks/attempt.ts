import type { Logger } from '../platform/logger.ts'
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

export interface Attempted {
  /** When the next one is due, if there is one: it may be now, because the delivery was to be sent again meanwhile. */
  readonly nextAt: Date | null
}

/**
 * Sends a delivery once and records what came of it. `onAnswer` is called in between: the record does not concern the
 * receiver. Rejects with the signal's reason when that cut the attempt off.
 */
export async function attempt(
  { sender, recorder, logger }: AttemptDependencies,
  delivery: DueDelivery,
  onAnswer: (result: SendResult) => void,
  signal: AbortSignal,
): Promise<Attempted> {
  const at = new Date()
  const startedAt = performance.now()
  const message = messageOf(delivery, delivery.keys, at)
  const result = await sender.send(message, signal)
  const durationMs = performance.now() - startedAt
  onAnswer(result)
  // The server's own stop is no failure of the receiver.
  if (!result.ok) signal.throwIfAborted()
  const status = result.answer?.status ?? null
  const retryAfter = result.answer?.headers['retry-after'] ?? null
  const next = nextAfter({ ok: result.ok, status, retryAfter }, delivery.failures, new Date(), Math.random())
  const { overtaken } = await recorder.record({
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
  if (overtaken) return { nextAt: new Date() }
  return { nextAt: next.status === 'pending' ? next.at : null }
}
