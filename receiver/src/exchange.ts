import { ReceiverError } from './errors.ts'
import type { Outcome } from './handlers.ts'
import type { WebhookHeaders } from './headers.ts'

/** What became of a genuine webhook. */
export type Taken = Outcome | 'enqueued'

/** What the sender is told, whatever the framework. */
export interface WebhookAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** For JSON. */
  readonly body: { outcome: Taken } | { error: { code: string; message: string } }
}

/**
 * Answers one request; never rejects. How a framework is served: `body` is the raw bytes or a promise of them, which
 * may reject with a ReceiverError, and `unheard` is told of errors of status 500 that no `onError` hears of.
 */
export type Respond = (
  headers: WebhookHeaders,
  body: unknown,
  unheard: (error: ReceiverError) => void,
) => Promise<WebhookAnswer>

const noHeaders = {}

export const successAnswer = (outcome: Taken): WebhookAnswer => ({
  status: 200,
  headers: noHeaders,
  body: { outcome },
})

/** The answer to a request that ended in `error`: its code and message, and nothing else of it. */
export const errorAnswer = ({ status, code, message }: ReceiverError): WebhookAnswer => ({
  status,
  headers: headersOf(status),
  body: { error: { code, message } },
})

function headersOf(status: number): Readonly<Record<string, string>> {
  if (status === 405) return { Allow: 'POST' }
  // Soon: what goes on has a deadline of seconds.
  if (status === 503) return { 'Retry-After': '5' }
  return noHeaders
}

/** The answer to another method than POST. */
export const methodAnswer = (): WebhookAnswer =>
  errorAnswer(new ReceiverError('method_not_allowed', 'Webhooks are sent here with POST alone.'))
