import { ReceiverError } from '../errors.ts'
import type { SignatureHeaders } from './signature.ts'

/** Headers of Node (`req.headers`, `req.headersDistinct`) or of `fetch`, or a plain object. Names may be in any case. */
export type WebhookHeaders = Readonly<Record<string, string | readonly string[] | undefined>> | Headers

/**
 * Reads the three headers of Standard Webhooks.
 * @throws ReceiverError `missing_header`, `duplicate_header`
 */
export function readHeaders(headers: WebhookHeaders): SignatureHeaders {
  return {
    id: read(headers, 'webhook-id'),
    timestamp: read(headers, 'webhook-timestamp'),
    signature: read(headers, 'webhook-signature'),
  }
}

const read = (headers: WebhookHeaders, name: string): string =>
  single(isFetchHeaders(headers) ? headers.get(name) : find(headers, name), name)

type Found = string | readonly string[] | null | undefined

// Detected by its method, because a framework may have its own class. Values of a plain object are never functions.
const isFetchHeaders = (headers: WebhookHeaders): headers is Headers => typeof headers.get === 'function'

function find(headers: Exclude<WebhookHeaders, Headers>, name: string): Found {
  const found = headers[name]
  if (found !== undefined) return found
  const key = Object.keys(headers).find((candidate) => candidate.toLowerCase() === name)
  return key === undefined ? undefined : headers[key]
}

function single(found: Found, name: string): string {
  if (typeof found === 'string' && found !== '') return found
  const [value, ...others] = typeof found === 'string' ? [] : (found ?? [])
  if (value === undefined || value === '') {
    throw new ReceiverError(
      'missing_header',
      `The header ${name} is missing. Send the webhook with its three Standard Webhooks headers, and let proxies pass them on.`,
    )
  }
  if (others.length > 0) {
    throw new ReceiverError('duplicate_header', `The header ${name} was sent more than once. Send it once.`)
  }
  return value
}
