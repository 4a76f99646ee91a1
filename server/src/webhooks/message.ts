import { type SigningKey, sign } from '@fairlead/receiver'

/** A request to a receiver. */
export interface Message {
  readonly url: string
  /** All but the signature. */
  readonly headers: Readonly<Record<string, string>>
  readonly signature: string
  readonly body: Buffer
}

/**
 * One attempt's request. Standard Webhooks: the id is the event's, the same over all attempts; the timestamp is new on
 * each; every key signs.
 */
export function messageOf(
  event: { readonly url: string; readonly eventId: string; readonly body: string },
  keys: readonly SigningKey[],
  now: Date,
): Message {
  const body = Buffer.from(event.body)
  const timestamp = Math.floor(now.getTime() / 1000)
  return {
    url: event.url,
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Fairlead-Webhooks',
      'webhook-id': event.eventId,
      'webhook-timestamp': String(timestamp),
    },
    signature: keys.map((key) => sign({ key, id: event.eventId, timestamp, body })).join(' '),
  }
}
