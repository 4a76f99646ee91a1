import { ReceiverError } from './errors.ts'
import type { SignatureHeaders } from './signature.ts'

/** Headers as Node has them (`req.headers`, `req.headersDistinct`) or as a plain object; names in any case. */
export type WebhookHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/**
 * Picks the three headers of Standard Webhooks.
 * @throws ReceiverError `missing_header`, `duplicate_header`
 */
export const readHeaders = (headers: WebhookHeaders): SignatureHeaders => ({
  id: readHeader(headers, 'webhook-id'),
  timestamp: readHeader(headers, 'webhook-timestamp'),
  signature: readHeader(headers, 'webhook-signature'),
})

function readHeader(headers: WebhookHeaders, name: string): string {
  const found = headers[name] ?? findInAnyCase(headers, name)
  const values = typeof found === 'string' ? [found] : (found ?? [])
  const [value] = values
  if (value === undefined || value === '') {
    throw new ReceiverError(
      'missing_header',
      `The header ${name} is missing. Send the webhook with its three Standard Webhooks headers, and let proxies pass them on.`,
    )
  }
  if (values.length > 1) {
    throw new ReceiverError('duplicate_header', `The header ${name} came more than once. Send it once.`)
  }
  return value
}

function findInAnyCase(headers: WebhookHeaders, name: string): string | readonly string[] | undefined {
  const key = Object.keys(headers).find((candidate) => candidate.toLowerCase() === name)
  return key === undefined ? undefined : headers[key]
}
