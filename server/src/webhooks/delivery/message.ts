import { type SigningKey, sign } from '@fairlead/receiver'

/** A request to an endpoint. */
export interface Message {
  readonly url: string
  /** All headers except the signature. */
  readonly headers: Readonly<Record<string, string>>
  readonly signature: string
  readonly body: Buffer
}

/**
 * Returns the request of one attempt, as Standard Webhooks says: the id is the event's and the same in all attempts, the
 * timestamp is that of the attempt, and there is a signature by each key.
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
