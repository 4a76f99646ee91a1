import { events } from '@fairlead/receiver'
import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { required, timestamp } from './common.ts'
import { delivery } from './deliveries.ts'

/** Why a receiver is disabled: by its user, by its answer 410, or after days of nothing but failures. */
export const disabledReasons = ['user', 'gone', 'failures'] as const
export type DisabledReason = (typeof disabledReasons)[number]

export const webhook = z.object({
  id: z.string(),
  url: z.string(),
  events: z.array(z.string()),
  project_id: z.string().nullable(),
  /** Deliveries a second at most; `null` for no limit. */
  rate: z.int().nullable(),
  status: z.enum(['enabled', 'disabled']),
  /** `null` while it is enabled. */
  disabled_reason: z.enum(disabledReasons).nullable(),
  created_at: timestamp,
})

/** The signing secret is in the answers to creation and rotation and nowhere else. */
export const webhookWithSecret = webhook.extend({ secret: z.string() })

const eventNames = Object.keys(events)
const groups = [...new Set(eventNames.filter((name) => name.includes('.')).map((name) => `${name.split('.')[0]}.*`))]

/** What a receiver may ask for: everything, all events of a group, or one event. */
export const eventPatterns = ['*', ...groups, ...eventNames] as const

const url = z.string(required('a string')).max(2048, 'must be at most 2048 characters')

const patterns = z
  .array(z.enum(eventPatterns, { error: `must be one of: ${eventPatterns.join(', ')}` }))
  .min(1, 'must name at least one event')
  .max(eventPatterns.length, 'must name each event once')

const mostPerSecond = 1000
const rate = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(mostPerSecond, `must be at most ${mostPerSecond}`)

const mostOverlapHours = 168

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
      url,
      events: patterns.optional(),
      project_id: z.string().nullish(),
      rate: rate.nullish(),
    }),
    response: webhookWithSecret,
  },
  'webhooks.get': {
    summary: 'Read a webhook receiver',
    description: 'One webhook receiver, without its secret.',
    response: webhook,
  },
  'webhooks.update': {
    summary: 'Change a webhook receiver',
    description:
      'Changes the fields that are given. What waits for a disabled receiver is sent once it is enabled again; events ' +
      'that happen meanwhile are not for it. Enabling forgets earlier failures.',
    body: z.object({
      url: url.optional(),
      events: patterns.optional(),
      project_id: z.string().nullish(),
      rate: rate.nullish(),
      status: z.enum(['enabled', 'disabled'], { error: 'must be enabled or disabled' }).optional(),
    }),
    response: webhook,
  },
  'webhooks.delete': {
    summary: 'Delete a webhook receiver',
    description: 'Nothing is sent to it any more, waiting deliveries included.',
  },
  'webhooks.rotateSecret': {
    summary: "Rotate a webhook receiver's secret",
    description:
      'Makes a new signing secret. For `overlap_hours` (24 unless given) every webhook carries a signature of the secret ' +
      'before, too; one that is older still ends at once. The new secret is in this answer and is never shown again.',
    body: z.object({
      overlap_hours: z
        .number('must be a number')
        .min(0, 'must be at least 0')
        .max(mostOverlapHours, `must be at most ${mostOverlapHours}`)
        .default(24),
    }),
    response: webhookWithSecret,
  },
  'webhooks.test': {
    summary: 'Send a test event',
    description: 'Sends a `ping` whatever the receiver asked for, and tries again as with any event.',
    response: delivery,
  },
  'webhooks.recover': {
    summary: 'Send again what failed',
    description: 'All deliveries that failed for good since the given time start anew, with the same ids and bodies.',
    body: z.object({
      since: z.iso.datetime({
        offset: true,
        error: (issue) => (issue.input === undefined ? 'is required' : 'must be a time such as 2026-01-31T12:00:00Z'),
      }),
    }),
    response: webhook.extend({ recovered: z.int().nonnegative() }),
  },
} as const satisfies Declarations<'webhooks'>
