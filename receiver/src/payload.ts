import { regexes } from 'zod/v4/core'
import { ReceiverError } from './errors.ts'
import type { Result } from './standard-schema.ts'

/** What every webhook's body looks like, whatever its event (the specification's section "Events"). */
export interface Envelope {
  readonly event: string
  /** Time of the event, ISO 8601 in UTC. */
  readonly timestamp: string
  /** As sent, not yet checked. */
  readonly data: object
}

/** A genuine webhook as it was sent, with its id: plain JSON. */
export interface Webhook extends Envelope {
  readonly id: string
}

/**
 * Reads the body of a webhook whose signature was found good: UTF-8, JSON, envelope.
 * @throws ReceiverError `invalid_utf8`, `invalid_json`, `invalid_payload`
 */
export const parseBody = (body: Uint8Array): Envelope => requireEnvelope(parseJson(body))

/**
 * Reads a webhook that comes back from a queue.
 * @throws ReceiverError `invalid_payload`
 */
export function parseWebhook(value: unknown): Webhook {
  const envelope = requireEnvelope(value)
  const { id } = value as { id?: unknown }
  if (typeof id !== 'string') throw invalidPayload('id')
  return { id, ...envelope }
}

// Fatal: Node would replace what it cannot decode, and a handler would see other text than the one that was signed.
// A byte order mark is kept, so that the parser refuses it.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(body))
  } catch (error) {
    // The parser's own message quotes the body, so it is not passed on.
    throw error instanceof SyntaxError
      ? new ReceiverError('invalid_json', 'The body is not JSON. Send one JSON object, without a byte order mark.')
      : new ReceiverError('invalid_utf8', 'The body is not UTF-8. Send JSON encoded as UTF-8.')
  }
}

// By hand, because it is the same for every event, and a schema's copy of it would cost more than the checks.
function requireEnvelope(value: unknown): Envelope {
  if (!isObject(value)) throw invalidPayload('the body')
  const { event, timestamp, data } = value
  if (typeof event !== 'string') throw invalidPayload('event')
  if (typeof timestamp !== 'string' || !utcTime.test(timestamp)) throw invalidPayload('timestamp')
  if (!isObject(data)) throw invalidPayload('data')
  return { event, timestamp, data }
}

const utcTime = regexes.datetime({})

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * The event's `data` as its schema gives it.
 * @throws ReceiverError `invalid_payload`
 */
export function acceptData(result: Result<unknown>): unknown {
  if (!result.issues) return result.value
  // Some libraries put the value itself into their issues; message and place are enough for a log.
  const cause = result.issues.map(({ message, path = [] }) => ({ message, path: path.map(keyOf).join('.') }))
  throw invalidPayload(['data', cause[0]?.path].filter(Boolean).join('.'), { cause })
}

const invalidPayload = (what: string, options?: ErrorOptions) =>
  new ReceiverError(
    'invalid_payload',
    `The body is not an event as it was agreed: ${what} is missing or not valid. If the server is newer, update @fairlead/receiver.`,
    options,
  )

const keyOf = (part: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof part === 'object' ? part.key : part)
