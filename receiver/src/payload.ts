import * as z from 'zod/mini'
import type { $ZodType } from 'zod/v4/core'
import { ReceiverError } from './errors.ts'
import { object } from './object.ts'
import type { Issue, Result, StandardSchema } from './standard-schema.ts'

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

// `data` is passed on as it is: copying what the event's own schema looks at next would cost more than all else here.
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)

const fields = {
  event: z.string(),
  timestamp: z.iso.datetime(),
  data: z.custom<object>(isObject),
}
const envelope = object(fields)
const webhook = object({ ...fields, id: z.string() })

/**
 * Reads the body of a webhook whose signature was found good: UTF-8, JSON, envelope.
 * @throws ReceiverError `invalid_utf8`, `invalid_json`, `invalid_payload`
 */
export function parseBody(body: Uint8Array): Envelope {
  return check(envelope, parseJson(body))
}

/**
 * Reads a webhook that comes back from a queue.
 * @throws ReceiverError `invalid_payload`
 */
export const parseWebhook = (value: unknown): Webhook => check(webhook, value)

/**
 * The event's `data` as its schema gives it; a promise of it where the schema takes its time.
 * @throws ReceiverError `invalid_payload`
 */
export function parseData(schema: StandardSchema, data: object): unknown {
  const result = schema['~standard'].validate(data)
  return result instanceof Promise ? result.then(accept) : accept(result)
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

function check<T>(schema: $ZodType<T>, value: unknown): T {
  const result = z.safeParse(schema, value)
  return result.success ? result.data : refuse(result.error.issues, [])
}

function accept(result: Result<unknown>): unknown {
  return result.issues ? refuse(result.issues, ['data']) : result.value
}

function refuse(issues: readonly Issue[], at: readonly string[]): never {
  // Some libraries put the value itself into their issues; message and place are enough for a log.
  const cause = issues.map(({ message, path = [] }) => ({ message, path: path.map(keyOf).join('.') }))
  throw new ReceiverError(
    'invalid_payload',
    `The body is not an event as it was agreed: ${[...at, cause[0]?.path].filter(Boolean).join('.') || 'the body'} is missing or not valid. ` +
      'If the server is newer, update @fairlead/receiver.',
    { cause },
  )
}

const keyOf = (part: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof part === 'object' ? part.key : part)
