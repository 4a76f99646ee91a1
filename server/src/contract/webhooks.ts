import { type EventName, events } from '@fairlead/receiver'
import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { required, timestamp } from './fields.ts'

const deliveryStatuses = ['pending', 'succeeded', 'failed'] as const

const delivery = z.object({
  id: z.string().describe('`dlv_…`.'),
  webhook_id: z.string(),
  event_id: z.string().describe('The value of the header `webhook-id`, the same for all attempts.'),
  event: z.string(),
  status: z.enum(deliveryStatuses),
  attempts: z.int().nonnegative().describe('The number of attempts so far.'),
  next_attempt_at: timestamp.nullable().describe('`null` without a further attempt.'),
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

const deliveredNames = Object.keys(events) as EventName[]

export const deliveryOperations = {
  'deliveries.list': {
    summary: 'List the deliveries of a webhook endpoint',
    description:
      'Newest first, filtered by `status` and `event`. The operator configures how long deliveries are kept.',
    query: z.object({
      status: z.enum(deliveryStatuses, { error: `must be one of: ${deliveryStatuses.join(', ')}` }).optional(),
      event: z.enum(deliveredNames, { error: `must be one of: ${deliveredNames.join(', ')}` }).optional(),
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

/** The reasons why an endpoint is disabled: by its owner, after a 410 answer, or after days with only failures. */
const disabledReasons = ['user', 'gone', 'failures'] as const
export type DisabledReason = (typeof disabledReasons)[number]

export const webhook = z.object({
  id: z.string().describe('`wh_…`.'),
  url: z.string(),
  events: z.array(z.string()),
  project_id: z.string().nullable().describe('`null` for all projects of the account.'),
  rate: z.int().nullable().describe('The most deliveries a second; `null` for no limit.'),
  status: z.enum(['enabled', 'disabled']),
  disabled_reason: z
    .enum(disabledReasons)
    .nullable()
    .describe(
      '`user` (by `PATCH`), `gone` (it answered 410), `failures` (five days and at least 20 attempts without a success), ' +
        'or `null` while it is enabled.',
    ),
  created_at: timestamp,
})

/** Only answers to creation and rotation contain the signing secret. */
const webhookWithSecret = webhook.extend({
  secret: z.string().describe('`whsec_…`, the signing secret. It is not shown again.'),
})

const eventNames = Object.keys(events)
const groups = [...new Set(eventNames.filter((name) => name.includes('.')).map((name) => `${name.split('.')[0]}.*`))]

/** The event patterns for subscriptions: everything, all events of a group, or one event. */
const eventPatterns = ['*', ...groups, ...eventNames] as const

const url = z
  .string(required('a string'))
  .max(2048, 'must be at most 2048 characters')
  .describe(
    '`https://…` or `http://…` without credentials. A public server refuses private addresses and, of the ports below ' +
      '1024, all but 80 and 443.',
  )

const projectId = z
  .string()
  .nullish()
  .describe('Limits the endpoint to the events of this project; `null` for the whole account.')

const patterns = z
  .array(z.enum(eventPatterns, { error: `must be one of: ${eventPatterns.join(', ')}` }))
  .min(1, 'must name at least one event')
  .max(eventPatterns.length, 'must name each event once')

const maxPerSecond = 1000
const rate = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(maxPerSecond, `must be at most ${maxPerSecond}`)
  .describe('The most deliveries a second; `null` for no limit.')

const maxOverlapHours = 168

export const webhookOperations = {
  'webhooks.list': {
    summary: 'List webhook endpoints',
    description: 'All webhook endpoints of the account, newest first, without their secrets.',
    response: z.object({ webhooks: z.array(webhook) }),
  },
  'webhooks.create': {
    summary: 'Create a webhook endpoint',
    description:
      'Sends events to `url`, signed as Standard Webhooks specifies. Without `project_id` these are the events of all ' +
      'projects, and without `rate` there is no limit. An account may have 100 endpoints unless the ' +
      "operator's plans say otherwise; one more is refused (400) with the limit in `details.max_webhooks`.",
    body: z.object({
      url,
      events: patterns.optional().describe('Names, groups, and `*` for all events. Defaults to `["*"]`.'),
      project_id: projectId,
      rate: rate.nullish(),
    }),
    response: webhookWithSecret,
  },
  'webhooks.get': {
    summary: 'Read a webhook endpoint',
    description: 'One webhook endpoint, without its secret.',
    response: webhook,
  },
  'webhooks.update': {
    summary: 'Change a webhook endpoint',
    description:
      'Omitted fields keep their values. Deliveries that are pending when an endpoint is disabled are sent when it ' +
      'is enabled again; events during that time are not sent to it. Enabling resets the count of failures.',
    body: z.object({
      url: url.optional(),
      events: patterns.optional(),
      project_id: projectId,
      rate: rate.nullish(),
      status: z.enum(['enabled', 'disabled'], { error: 'must be enabled or disabled' }).optional(),
    }),
    response: webhook,
  },
  'webhooks.delete': {
    summary: 'Delete a webhook endpoint',
    description: 'It gets no more events; pending deliveries are dropped.',
  },
  'webhooks.rotateSecret': {
    summary: 'Rotate the secret of a webhook endpoint',
    description:
      'Creates a new signing secret. For `overlap_hours` every webhook is also signed with the previous secret; older ' +
      'secrets end at once.',
    body: z.object({
      overlap_hours: z
        .number('must be a number')
        .min(0, 'must be at least 0')
        .max(maxOverlapHours, `must be at most ${maxOverlapHours}`)
        .default(24)
        .describe('The time for which the previous secret signs as well.'),
    }),
    response: webhookWithSecret,
  },
  'webhooks.test': {
    summary: 'Send a test event',
    description: 'Sends a `ping`, for any `events`, with the usual retries. The endpoint must be enabled.',
    response: delivery,
  },
  'webhooks.recover': {
    summary: 'Send failed deliveries again',
    description:
      'Restarts all deliveries that failed permanently since the given time, with the same ids and bodies. The endpoint ' +
      'must be enabled.',
    body: z.object({
      since: z.iso
        .datetime({
          offset: true,
          error: (issue) => (issue.input === undefined ? 'is required' : 'must be a time such as 2026-01-31T12:00:00Z'),
        })
        .describe('A time such as `2026-01-31T12:00:00Z`.'),
    }),
    response: webhook.extend({
      recovered: z.int().nonnegative().describe('The number of deliveries that are sent again.'),
    }),
  },
} as const satisfies Declarations<'webhooks'>
