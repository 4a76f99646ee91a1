import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { ReceiverError } from './errors.ts'
import {
  type Envelope,
  type EventData,
  type EventName,
  envelope,
  events,
  isEventName,
  type WebhookEvent,
} from './events.ts'

/** What a handler is given: the envelope as sent, and the id of the webhook (the same over all its attempts). */
export type ReceivedEvent<N extends EventName = EventName> = { [K in N]: WebhookEvent<K> & { id: string } }[N]

/** A genuine event that this version of the package has no schema for; its `data` is not checked. */
export type UnknownEvent = Envelope & { id: string }

/** A genuine webhook, told apart by `known`. */
export type VerifiedWebhook =
  | { readonly known: true; readonly event: ReceivedEvent }
  | { readonly known: false; readonly event: UnknownEvent }

/**
 * Reads the body of a webhook whose signature was found good: UTF-8, JSON, envelope, the event's data.
 * @throws ReceiverError `invalid_utf8`, `invalid_json`, `invalid_payload`
 */
export function parsePayload(id: string, body: Uint8Array): VerifiedWebhook {
  const parsed = check(envelope, parseJson(body), [])
  if (!isEventName(parsed.event)) return { known: false, event: { ...parsed, id } }
  return { known: true, event: parseEvent(id, parsed.event, parsed) }
}

const schemas: { readonly [N in EventName]: z.ZodType<EventData<N>> } = events

function parseEvent<N extends EventName>(id: string, event: N, { timestamp, data }: Envelope): ReceivedEvent<N> {
  return { id, event, timestamp, data: check(schemas[event], data, ['data']) }
}

function parseJson(body: Uint8Array): unknown {
  // Node would replace what it cannot decode, and a handler would see other text than the one that was signed.
  if (!isUtf8(body)) {
    throw new ReceiverError('invalid_utf8', 'The body is not UTF-8. Send JSON encoded as UTF-8.')
  }
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString())
  } catch {
    // The parser's own message quotes the body, so it is not passed on.
    throw new ReceiverError('invalid_json', 'The body is not JSON. Send one JSON object, without a byte order mark.')
  }
}

function check<T>(schema: z.ZodType<T>, value: unknown, at: readonly string[]): T {
  const result = z.safeParse(schema, value)
  if (result.success) return result.data
  const path = [...at, ...(result.error.issues[0]?.path ?? [])].join('.') || 'the body'
  throw new ReceiverError(
    'invalid_payload',
    `The body is not a Fairlead event: ${path} is missing or of the wrong type. If the server is newer, update @fairlead/receiver.`,
    { cause: result.error },
  )
}
