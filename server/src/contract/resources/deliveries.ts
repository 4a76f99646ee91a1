import { type EventName, events } from '@fairlead/receiver'
import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { timestamp } from './common.ts'

const deliveryStatuses = ['pending', 'succeeded', 'failed'] as const

/** One event that is sent to one endpoint. */
export const delivery = z.object({
  id: z.string().describe('`dlv_…`.'),
  webhook_id: z.string(),
  event_id: z.string().describe('The value of the header `webhook-id`, the same for all attempts.'),
  event: z.string(),
  status: z.enum(deliveryStatuses),
  attempts: z.int().nonnegative().describe('The number of attempts so far.'),
  next_attempt_at: timestamp.nullable().describe('`null` when no further attempt is due.'),
  last_status: z.int().nullable().describe("The HTTP status of the last attempt's answer; `null` without an answer."),
  last_error: z.string().nullable().describe('The reason why the last attempt got no complete answer.'),
  created_at: timestamp,
  finished_at: timestamp.nullable(),
})

const headers = z.record(z.string(), z.string())

const deliveryAttempt = z.object({
  number: z.int().positive(),
  at: timestamp,
  duration_ms: z.int().nonnegative(),
  request: z
    .object({ url: z.string(), headers })
    .describe("The request as sent, without its signature. Its body is the delivery's `payload`."),
  response: z
    .object({
      status: z.int(),
      headers,
      body: z.string().describe('As text, at most 16 KiB.'),
    })
    .nullable()
    .describe('The answer; `null` without a complete one.'),
  error: z.string().nullable(),
})

const deliveryDetail = delivery.extend({
  payload: z.string().describe('The exact body of every request.'),
  latest_attempts: z.array(deliveryAttempt).describe('The last 50, newest first.'),
})

const eventNames = Object.keys(events) as EventName[]

export const deliveryOperations = {
  'deliveries.list': {
    summary: 'List the deliveries of a webhook endpoint',
    description:
      'Newest first, filtered by `status` and `event`. The operator configures how long deliveries are kept.',
    query: z.object({
      status: z.enum(deliveryStatuses, { error: `must be one of: ${deliveryStatuses.join(', ')}` }).optional(),
      event: z.enum(eventNames, { error: `must be one of: ${eventNames.join(', ')}` }).optional(),
    }),
    response: z.object({ deliveries: z.array(delivery) }),
  },
  'deliveries.get': {
    summary: 'Read a delivery',
    description: 'One delivery with the requests and answers of its attempts.',
    response: deliveryDetail,
  },
  'deliveries.redeliver': {
    summary: 'Send a delivery again',
    description:
      'Sends the delivery at once, whether it succeeded or failed before, with the same `webhook-id` and body. Its ' +
      'schedule of attempts starts anew. The endpoint must be enabled.',
    response: delivery,
  },
} as const satisfies Declarations<'deliveries'>
