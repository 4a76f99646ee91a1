import { ReceiverError } from './errors.ts'
import type { SignatureHeaders } from './signature.ts'

/** Headers as Node has them (`req.headers`, `req.headersDistinct`), as `fetch` has them, or as a plain object; names in any case. */
export type WebhookHeaders = Readonly<Record<string, string | readonly string[] | undefined>> | Headers

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
  const found = headers instanceof Headers ? headers.get(name) : (headers[name] ?? findInAnyCase(headers, name))
  if (typeof found === 'string' && found !== '') return found
  const [value, ...others] = typeof found === 'string' ? [] : (found ?? [])
  if (value === undefined || value === '') {
    throw new ReceiverError(
      'missing_header',
      `The header ${name} is missing. Send the webhook with its three Standard Webhooks headers, and let proxies pass them on.`,
    )
  }
  if (others.length > 0) {
    throw new ReceiverError('duplicate_header', `The header ${name} came more than once. Send it once.`)
  }
  return value
}

function findInAnyCase(
  headers: Exclude<WebhookHeaders, Headers>,
  name: string,
): string | readonly string[] | undefined {
  const key = Object.keys(headers).find((candidate) => candidate.toLowerCase() === name)
  return key === undefined ? undefined : headers[key]
}
