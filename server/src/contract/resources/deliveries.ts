import { type EventName, events } from '@fairlead/receiver'
import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { timestamp } from './common.ts'

export const deliveryStatuses = ['pending', 'succeeded', 'failed'] as const

/** One event on its way to one receiver. */
export const delivery = z.object({
  id: z.string(),
  webhook_id: z.string(),
  /** The value of `webhook-id`, the same over all attempts. */
  event_id: z.string(),
  event: z.string(),
  status: z.enum(deliveryStatuses),
  /** How many attempts were made. */
  attempts: z.int().nonnegative(),
  /** `null` when there is no further one. */
  next_attempt_at: timestamp.nullable(),
  /** HTTP status of the last attempt's answer; `null` without an answer. */
  last_status: z.int().nullable(),
  /** Why the last attempt got no complete answer. */
  last_error: z.string().nullable(),
  created_at: timestamp,
  finished_at: timestamp.nullable(),
})

const headers = z.record(z.string(), z.string())

export const deliveryAttempt = z.object({
  number: z.int().positive(),
  at: timestamp,
  duration_ms: z.int().nonnegative(),
  /** The request as sent, but for its signature; the body is the delivery's `payload`. */
  request: z.object({ url: z.string(), headers }),
  /** At most 16 KiB of the answer's body, as text. */
  response: z.object({ status: z.int(), headers, body: z.string() }).nullable(),
  error: z.string().nullable(),
})

export const deliveryDetail = delivery.extend({
  /** The exact body of every request. */
  payload: z.string(),
  /** The last 50, newest first. */
  latest_attempts: z.array(deliveryAttempt),
})

const eventNames = Object.keys(events) as EventName[]

export const deliveryOperations = {
  'deliveries.list': {
    summary: 'List the deliveries of a webhook receiver',
    description: 'Newest first; of one `status` or one `event` if given. Kept for as long as the operator has set.',
    query: z.object({
      status: z.enum(deliveryStatuses, { error: `must be one of: ${deliveryStatuses.join(', ')}` }).optional(),
      event: z.enum(eventNames, { error: `must be one of: ${eventNames.join(', ')}` }).optional(),
    }),
    response: z.object({ deliveries: z.array(delivery) }),
  },
  'deliveries.get': {
    summary: 'Read a delivery',
    description: 'One delivery with the requests and the answers of its attempts.',
    response: deliveryDetail,
  },
  'deliveries.redeliver': {
    summary: 'Send a delivery again',
    description:
      'Sent at once, whatever came of it so far, with the same id and body, and tried again as with any event.',
    response: delivery,
  },
} as const satisfies Declarations<'deliveries'>
