import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { type Scope, scopeResources } from '../routes.ts'
import { name, timestamp } from './common.ts'

/** Named sets of scopes: everything, reading everything, what a pipeline needs. */
export const presetNames = ['full', 'read', 'deploy'] as const
export type Preset = (typeof presetNames)[number]

const scopes = scopeResources.flatMap((resource): Scope[] => [`${resource}:read`, `${resource}:write`])

export const account = z.object({
  id: z.string(),
  name: z.string(),
  plan: z.enum(['free', 'pro', 'enterprise']),
  /** The window of now; `reset` is Unix seconds as in the header, and `null` before its first request. */
  rate_limit: z.object({
    limit: z.int(),
    used: z.int().nonnegative(),
    remaining: z.int().nonnegative(),
    reset: z.int().nullable(),
  }),
})

export const apiKey = z.object({
  id: z.string(),
  name: z.string(),
  /** The preset with exactly these scopes, if there is one. */
  preset: z.enum(presetNames).nullable(),
  scopes: z.array(z.enum(scopes)),
  project_ids: z.array(z.string()).nullable(),
  /** The beginning of the key, to recognise it by. */
  hint: z.string().nullable(),
  created_at: timestamp,
  last_used_at: timestamp.nullable(),
  expires_at: timestamp.nullable(),
  revoked_at: timestamp.nullable(),
})

/** The key itself is in the answers to creation and rotation and nowhere else. */
export const apiKeyCreated = apiKey.extend({ key: z.string() })

const longestLifeDays = 3650

const newApiKey = z
  .object({
    name: name,
    preset: z.enum(presetNames, { error: `must be one of: ${presetNames.join(', ')}` }).optional(),
    scopes: z
      .array(z.enum(scopes, { error: `must be one of: ${scopes.join(', ')}` }))
      .min(1, 'must name at least one scope')
      .max(100, 'must be at most 100 scopes')
      .optional(),
    project_ids: z
      .array(z.string())
      .min(1, 'must name at least one project')
      .max(100, 'must be at most 100 projects')
      .nullish(),
    expires_in_days: z
      .int({ error: 'must be a whole number' })
      .min(1, 'must be at least 1')
      .max(longestLifeDays, `must be at most ${longestLifeDays}`)
      .nullish(),
  })
  .superRefine(({ preset, scopes }, context) => {
    if (preset === undefined && scopes === undefined) {
      context.addIssue({ code: 'custom', path: ['preset'], message: 'is required, or scopes instead' })
    }
    if (preset !== undefined && scopes !== undefined) {
      context.addIssue({ code: 'custom', path: ['scopes'], message: 'must not be given beside preset' })
    }
  })
  .meta({ examples: [{ name: 'GitHub Actions', preset: 'deploy', expires_in_days: 90 }] })

/** A week. */
const longestOverlapHours = 168

export const auditEntry = z.object({
  id: z.string(),
  at: timestamp,
  /** `command` is the command line on the server; whoever failed to sign in under an unknown name has none. */
  actor: z.object({ type: z.enum(['key', 'user', 'command']), id: z.string().nullable(), name: z.string().nullable() }),
  address: z.string().nullable(),
  request_id: z.string().nullable(),
  operation: z.string(),
  project_id: z.string().nullable(),
  resource_id: z.string().nullable(),
})

export const accountOperations = {
  'account.get': {
    summary: 'Read the account',
    description: 'The account that the key or the user belongs to, with its plan and its rate limit.',
    response: account,
  },
  'apiKeys.list': {
    summary: 'List API keys',
    description: 'All API keys of the account, newest first, revoked and expired ones included.',
    response: z.object({ api_keys: z.array(apiKey) }),
  },
  'apiKeys.create': {
    summary: 'Create an API key',
    description:
      'Give `preset` or `scopes`. With `project_ids` the key is bound to these projects. Without `expires_in_days` it ' +
      'does not expire. The key is in this answer and is never shown again.',
    body: newApiKey,
    response: apiKeyCreated,
  },
  'apiKeys.delete': {
    summary: 'Revoke an API key',
    description: 'Holds at once. The key stays in the list with the time of its revocation.',
  },
  'apiKeys.rotate': {
    summary: 'Rotate an API key',
    description:
      'Makes a new key with the same name, rights and lifetime. The old one goes on for `overlap_hours`, 24 unless ' +
      'told otherwise. The new key is in this answer and is never shown again.',
    body: z.object({
      overlap_hours: z
        .int({ error: 'must be a whole number' })
        .min(0, 'must be at least 0')
        .max(longestOverlapHours, `must be at most ${longestOverlapHours}`)
        .default(24),
    }),
    response: apiKeyCreated,
  },
  'auditLog.list': {
    summary: 'List the audit log',
    description: 'Who changed what and when, newest first, and every attempt to sign in.',
    response: z.object({ entries: z.array(auditEntry) }),
  },
} as const satisfies Declarations<'account' | 'apiKeys' | 'auditLog'>
