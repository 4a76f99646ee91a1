import { regexes } from 'zod/v4/core'
import { ReceiverError } from './errors.ts'
import type { Result } from './standard-schema.ts'

/** The body of every webhook, for all events (section "Events" of the specification). */
export interface Envelope {
  readonly event: string
  /** Time of the event in RFC 3339. Fairlead sends UTC. */
  readonly timestamp: string
  /** As sent, not yet validated. */
  readonly data: object
}

/** A genuine webhook as sent, together with its id. Plain JSON. */
export interface Webhook extends Envelope {
  readonly id: string
}

/**
 * Parses the body of a webhook with a valid signature. Checks UTF-8, JSON and the envelope.
 * @throws ReceiverError `invalid_utf8`, `invalid_json`, `invalid_payload`
 */
export const parseBody = (body: Uint8Array): Envelope => requireEnvelope(parseJson(body))

/**
 * Validates a webhook that was stored in a queue.
 * @throws ReceiverError `invalid_payload`
 */
export function parseWebhook(value: unknown): Webhook {
  const envelope = requireEnvelope(value)
  const { id } = value as { id?: unknown }
  if (typeof id !== 'string') throw invalidPayload('id')
  return { id, ...envelope }
}

// Fatal, because replaced invalid bytes would give a handler another text than the signed text. With ignoreBOM, a byte
// order mark stays in the text, so that the JSON parser rejects it.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(utf8.decode(body))
  } catch (error) {
    // The parser's message is dropped, because it quotes the body.
    throw error instanceof SyntaxError
      ? new ReceiverError('invalid_json', 'The body is not JSON. Send one JSON object, without a byte order mark.')
      : new ReceiverError('invalid_utf8', 'The body is not UTF-8. Send JSON encoded as UTF-8.')
  }
}

// Written by hand: a schema would copy the object, which costs more than these checks.
function requireEnvelope(value: unknown): Envelope {
  if (!isObject(value)) throw invalidPayload('the body')
  const { event, timestamp, data } = value
  if (typeof event !== 'string') throw invalidPayload('event')
  if (typeof timestamp !== 'string' || !time.test(timestamp)) throw invalidPayload('timestamp')
  if (!isObject(data)) throw invalidPayload('data')
  return { event, timestamp, data }
}

const time = regexes.datetime({ offset: true })

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Returns the `data` that the schema outputs.
 * @throws ReceiverError `invalid_payload`
 */
export function acceptData(result: Result<unknown>): unknown {
  if (!result.issues) return result.value
  // Only message and path are kept, because some libraries add the value itself to their issues.
  const cause = result.issues.map(({ message, path = [] }) => ({ message, path: path.map(keyOf).join('.') }))
  throw invalidPayload(['data', cause[0]?.path].filter(Boolean).join('.'), { cause })
}

const invalidPayload = (field: string, options?: ErrorOptions) =>
  new ReceiverError(
    'invalid_payload',
    `The body is not a valid event: ${field} is missing or invalid. If the server is newer, update @fairlead/receiver.`,
    options,
  )

const keyOf = (part: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof part === 'object' ? part.key : part)
