import type { ReceiverError } from './errors.ts'
import type { WebhookHeaders } from './headers.ts'

/** One request, whatever the framework. */
export interface WebhookRequest {
  readonly headers: WebhookHeaders
  /** The body's raw bytes; rejects with a ReceiverError when they cannot be had. */
  readonly body: () => Promise<Uint8Array>
}

/** What the sender is told, whatever the framework. */
export interface WebhookAnswer {
  readonly status: number
  readonly body: { outcome: 'handled' | 'ignored' } | { error: { code: string; message: string } }
  /** An error that nobody has been told of yet. */
  readonly unreported?: ReceiverError
}

/** The answer to a request that ended in `error`: its code and message, and nothing else of it. */
export const errorAnswer = ({ status, code, message }: ReceiverError): WebhookAnswer => ({
  status,
  body: { error: { code, message } },
})
