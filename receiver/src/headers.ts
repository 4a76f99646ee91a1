import { ReceiverError } from './errors.ts'
import type { SignatureHeaders } from './signature.ts'

/** Headers as Node has them (`req.headers`, `req.headersDistinct`), as `fetch` has them, or as a plain object; names in any case. */
export type WebhookHeaders = Readonly<Record<string, string | readonly string[] | undefined>> | Headers

/**
 * Picks the three headers of Standard Webhooks.
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

// By its method, because a framework may bring a class of its own; a header is never a function.
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
    throw new ReceiverError('duplicate_header', `The header ${name} came more than once. Send it once.`)
  }
  return value
}
