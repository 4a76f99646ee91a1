import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { name, timestamp } from './fields.ts'
import { scopes } from './routes.ts'
import { workflowRun } from './trust.ts'

const presetNames = ['full', 'read', 'deploy'] as const
export type Preset = (typeof presetNames)[number]

export const account = z.object({
  id: z.string().describe('`acct_…`.'),
  name: z.string(),
  plan: z.enum(['free', 'pro', 'enterprise']),
  rate_limit: z.object({
    limit: z.int().describe('The requests that the window allows.'),
    used: z.int().nonnegative(),
    remaining: z.int().nonnegative(),
    reset: z.int().nullable().describe('The end in Unix seconds; `null` when no key was used in the last hour.'),
  }),
})

export const apiKey = z.object({
  id: z.string().describe('`key_…`.'),
  name: z.string(),
  preset: z.enum(presetNames).nullable().describe('The preset with exactly these scopes, or `null`.'),
  scopes: z.array(z.enum(scopes)),
  project_ids: z.array(z.string()).nullable().describe('The projects that the key is bound to; `null` for all.'),
  hint: z.string().describe('The beginning of the key, to recognise it by.'),
  created_at: timestamp,
  last_used_at: timestamp.nullable().describe('To the minute.'),
  expires_at: timestamp.nullable(),
  revoked_at: timestamp.nullable(),
  workflow: workflowRun.nullable().describe('The run that exchanged a token for it; `null` for all other keys.'),
})

/** Only answers to creation and rotation contain the key. */
const apiKeyCreated = apiKey.extend({ key: z.string().describe('The key itself. It is not shown again.') })

const maxLifeDays = 3650

const newApiKey = z
  .object({
    name: name,
    preset: z
      .enum(presetNames, { error: `must be one of: ${presetNames.join(', ')}` })
      .optional()
      .describe('A named set of scopes. Give either `preset` or `scopes`.'),
    scopes: z
      .array(z.enum(scopes, { error: `must be one of: ${scopes.join(', ')}` }))
      .min(1, 'must name at least one scope')
      .max(100, 'must be at most 100 scopes')
      .optional()
      .describe('The permissions, instead of `preset`. Write implies read; `runs:write` shows secret variables.'),
    project_ids: z
      .array(z.string())
      .min(1, 'must name at least one project')
      .max(100, 'must be at most 100 projects')
      .nullish()
      .describe('Binds the key to these projects; `null` (the default) for all projects of the account.'),
    expires_in_days: z
      .int({ error: 'must be a whole number' })
      .min(1, 'must be at least 1')
      .max(maxLifeDays, `must be at most ${maxLifeDays}`)
      .nullish()
      .describe('Without it the key does not expire.'),
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

const maxOverlapHours = 168

export const auditEntry = z.object({
  id: z.string().describe('`aud_…`.'),
  at: timestamp,
  actor: z
    .object({
      type: z
        .enum(['key', 'user', 'command', 'workflow'])
        .describe('`command` is the command line on the server, `workflow` a run that sent a token of its issuer.'),
      id: z.string().nullable().describe('`null` for the command line, workflows and an unknown e-mail address.'),
      name: z.string().nullable().describe('The name of the key, the e-mail address of the user, or the repository.'),
    })
    .describe('The caller.'),
  address: z.string().nullable().describe("The client's network address."),
  request_id: z.string().nullable(),
  operation: z.string().describe('Such as `projects.create`, or `session.create_failed` for a failed sign-in.'),
  project_id: z.string().nullable(),
  resource_id: z.string().nullable(),
  details: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe(
      'For the exchange of a token: its `claims`, the rule (`trust_id`), or the `reason` of the refusal. For a run ' +
        'or a schedule: its `app_id` and `command`. For stored git credentials: their `kind` and `git_url`; for ' +
        'credentials of a registry: its `registry` and `username`.',
    ),
})

const usageLimits = [
  'projects',
  'apps',
  'databases',
  'storage_gb',
  'building',
  'runs',
  'schedules',
  'domains',
  'api_keys',
] as const

const usage = z.object({
  limit: z.enum(usageLimits).describe('As errors name it in `details.limit`; `building` are deployments.'),
  used: z.number().nonnegative(),
  most: z.number().nonnegative(),
})

const planView = z.object({
  name: z.string(),
  memory_mb: z.int().describe('The memory of each instance of an app, in 10⁶ bytes.'),
  cpus: z.number(),
  instances: z.int().describe('The most instances of an app.'),
  app_gb: z.number().describe('The disk space of an app, in 10⁹ bytes: its release, its folders and its volumes.'),
  domains: z.int().describe('The most domains of an app.'),
  apps: z.int().describe('The most apps of a project.'),
  databases: z.int().describe('The most databases of a project.'),
  database_gb: z.number().describe('The size of one database, in 10⁹ bytes.'),
  storage_gb: z.number().describe('The size of all files of a project.'),
  file_mb: z.number().describe('The size of one file.'),
})

/** A storage has the id of its project. */
const found = z.object({
  kind: z.enum(['project', 'app', 'database', 'storage']),
  id: z.string(),
  name: z.string(),
  project_id: z.string(),
  project_name: z.string(),
})

export const accountOperations = {
  'account.usage': {
    summary: 'Read the usage of the account',
    description:
      'The usage of the whole account, over all of its projects, with the limits. A key that is bound to projects ' +
      'cannot read it.',
    response: z.object({ usage: z.array(usage) }),
  },
  'account.plans': {
    summary: 'List plans and regions',
    description:
      'The plans that the account may choose for its projects and databases, with their limits, and the regions.',
    response: z.object({
      plans: z.array(planView),
      regions: z.array(z.string()).describe('Empty when a project may name any region.'),
      default_region: z.string(),
    }),
  },
  'account.search': {
    summary: 'Find projects, apps, databases and storage',
    description:
      "The items of the account whose names, or whose projects' names, contain each word of a text, newest first: " +
      'at most 50 of each kind. Without a text, the newest.',
    query: z.object({
      text: z
        .string()
        .max(100, 'must be at most 100 characters')
        .refine((value) => value.isWellFormed() && !value.includes('\0'), 'must be well-formed Unicode')
        .default('')
        .describe('Upper and lower case are the same.'),
    }),
    response: z.object({
      found: z.array(found),
      complete: z.boolean().describe('True when the answer has all matches of every kind.'),
    }),
  },
  'account.get': {
    summary: 'Read the account',
    description: 'The account of the key or the user, with its plan and its rate limit.',
    response: account,
  },
  'apiKeys.list': {
    summary: 'List API keys',
    description: 'All API keys of the account, newest first, including revoked and expired ones.',
    response: z.object({ api_keys: z.array(apiKey) }),
  },
  'apiKeys.create': {
    summary: 'Create an API key',
    description: 'Creates a key with the given permissions.',
    body: newApiKey,
    response: apiKeyCreated,
  },
  'apiKeys.delete': {
    summary: 'Revoke an API key',
    description: 'The key stops working at once, and followed logs break off. It stays in the list.',
  },
  'apiKeys.rotate': {
    summary: 'Rotate an API key',
    description:
      'Creates a new key with the same name, rights and lifetime. The old one remains valid for `overlap_hours`. A ' +
      'key that is revoked or expired cannot be rotated (400), and neither can the key of a workflow run.',
    body: z.object({
      overlap_hours: z
        .int({ error: 'must be a whole number' })
        .min(0, 'must be at least 0')
        .max(maxOverlapHours, `must be at most ${maxOverlapHours}`)
        .default(24)
        .describe('The time for which the old key remains valid.'),
    }),
    response: apiKeyCreated,
  },
  'auditLog.list': {
    summary: 'List the audit log',
    description:
      'All changes and attempts to sign in, newest first. Entries are written in the transaction of the change, do ' +
      'not contain request bodies, and are kept for a year unless the configuration says otherwise.',
    response: z.object({ entries: z.array(auditEntry) }),
  },
} as const satisfies Declarations<'account' | 'apiKeys' | 'auditLog'>
