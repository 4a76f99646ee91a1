import { type EventName, events } from '@fairlead/receiver'
import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { required, timestamp } from './common.ts'

export const webhook = z.object({
  id: z.string(),
  url: z.string(),
  events: z.array(z.string()),
  project_id: z.string().nullable(),
  status: z.enum(['enabled', 'disabled']),
  created_at: timestamp,
})

/** The signing secret is in the answer to the creation and nowhere else. */
export const webhookCreated = webhook.extend({ secret: z.string() })

/** The events that receivers can ask for. */
const eventNames = Object.keys(events) as EventName[]

export const webhookOperations = {
  'webhooks.list': {
    summary: 'List webhook receivers',
    description: 'All webhook receivers of the account, newest first, without their secrets.',
    response: z.object({ webhooks: z.array(webhook) }),
  },
  'webhooks.create': {
    summary: 'Create a webhook receiver',
    description:
      'Events are sent to `url`, signed as Standard Webhooks says. With `project_id` only the events of that project ' +
      'are sent. The signing secret is in this answer and is never shown again.',
    body: z.object({
      url: z.string(required('a string')).max(2048, 'must be at most 2048 characters'),
      events: z
        .array(z.enum(['*', ...eventNames], { error: `must be one of: *, ${eventNames.join(', ')}` }))
        .min(1, 'must name at least one event')
        .optional(),
      project_id: z.string().nullish(),
    }),
    response: webhookCreated,
  },
  'webhooks.delete': {
    summary: 'Delete a webhook receiver',
    description: 'Nothing is sent to it any more, waiting deliveries included.',
  },
} as const satisfies Declarations<'webhooks'>
