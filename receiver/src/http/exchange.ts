import { ReceiverError } from '../errors.ts'
import type { Outcome } from '../handlers.ts'
import type { WebhookHeaders } from '../signature/headers.ts'

/** The result of a genuine webhook. */
export type AnswerOutcome = Outcome | 'enqueued'

/** The HTTP response to a webhook, independent of any framework. */
export interface WebhookAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** To be sent as JSON. */
  readonly body: { outcome: AnswerOutcome } | { error: { code: string; message: string } }
}

/**
 * Answers one request; never rejects. Adapters for frameworks call it with the raw bytes as `body`, or with a promise
 * of them that may reject with a ReceiverError. Without `onError`, `defaultReport` is called with the receiver's
 * failures; also with a failure of `onError`.
 */
export type Respond = (
  headers: WebhookHeaders,
  body: unknown,
  defaultReport: (error: ReceiverError) => void,
) => Promise<WebhookAnswer>

const noHeaders = {}

export const successAnswer = (outcome: AnswerOutcome): WebhookAnswer => ({
  status: 200,
  headers: noHeaders,
  body: { outcome },
})

/** Returns the answer to a request that failed with `error`. It contains only the code and the message. */
export const errorAnswer = ({ status, code, message }: ReceiverError): WebhookAnswer => ({
  status,
  headers: headersOf(status),
  body: { error: { code, message } },
})

function headersOf(status: number): Readonly<Record<string, string>> {
  if (status === 405) return { Allow: 'POST' }
  // Short, because the running handler has a deadline of seconds.
  if (status === 503) return { 'Retry-After': '5' }
  return noHeaders
}

/** Returns the answer to a method other than POST. */
export const methodAnswer = (): WebhookAnswer =>
  errorAnswer(new ReceiverError('method_not_allowed', 'Webhooks are sent here with POST only.'))
