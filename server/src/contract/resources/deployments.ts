import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { name, required, timestamp } from './common.ts'

export const deploymentStatuses = ['building', 'running', 'failed', 'canceled', 'superseded', 'stopped'] as const
export type DeploymentStatus = (typeof deploymentStatuses)[number]

/** Exactly the fields of the specification. */
export const deployment = z.object({
  id: z.string(),
  name: z.string(),
  status: z.enum(deploymentStatuses),
  url: z.string(),
  created_at: timestamp,
})

/** The step that a deployment failed in. */
export const deploymentStages = ['fetch', 'plan', 'build', 'start', 'switch', 'run'] as const
export type DeploymentStage = (typeof deploymentStages)[number]

export const deploymentFailure = z.object({
  stage: z.enum(deploymentStages),
  /** Stable and machine-readable, such as `unknown_branch`. */
  code: z.string(),
  /** What happened and what to do. */
  message: z.string(),
})
export type DeploymentFailure = z.infer<typeof deploymentFailure>

/** One deployment, read by its id. */
export const deploymentDetail = deployment.extend({
  project_id: z.string(),
  git_url: z.string(),
  branch: z.string().nullable(),
  commit: z.string().nullable(),
  /** Of its variables, sorted; values are never told. */
  env_var_names: z.array(z.string()),
  /** Of the deployments of its app the one that was created, rolled back to or restarted last. */
  latest_id: z.string(),
  failure: deploymentFailure.nullable(),
  started_at: timestamp.nullable(),
  finished_at: timestamp.nullable(),
})

const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and underscores that starts with no digit')

/** Set by the platform itself, so that a value of the app's own would never be seen. */
export const reservedVariables = ['PORT', 'PATH', 'HOME', 'TMPDIR', 'FAIRLEAD_DEPLOYMENT_ID', 'FAIRLEAD_CACHE'] as const

/** That an app can have. */
export const mostVariables = 200
/** The kernel takes 128 KiB for one, in UTF-8. */
const longestVariable = 32_000

const variableValue = z
  .string({ error: 'must be a string' })
  .max(longestVariable, `must be at most ${longestVariable} characters`)
  .refine((value) => !value.includes('\0'), 'must not contain a NUL character')
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')

// Counted before they are looked at one by one.
const variables = z
  .custom<Readonly<Record<string, string>>>((given) => Object.keys(Object(given)).length <= mostVariables, {
    error: `must be at most ${mostVariables} variables`,
    abort: true,
  })
  .pipe(z.record(variableName, variableValue, { error: 'must be an object of strings' }))
  .superRefine((given, context) => {
    for (const reserved of reservedVariables) {
      if (Object.hasOwn(given, reserved)) {
        context.addIssue({ code: 'custom', path: [reserved], message: 'is set by the platform; choose another name' })
      }
    }
  })

const variableNames = z
  .array(variableName, { error: 'must be an array of names' })
  .max(mostVariables, `must be at most ${mostVariables} names`)

/** The full name of a commit (SHA-1 or SHA-256); a short one could mean another commit tomorrow. */
const commit = z
  .string({ error: 'must be a string' })
  .regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/i, 'must be the full hash of a commit: 40 or 64 hexadecimal digits')
  .transform((hash) => hash.toLowerCase())

const gitToken = z
  .string({ error: 'must be a string' })
  .max(1000, 'must be at most 1000 characters')
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces')

/** What a log shows at most, and unless told otherwise, in lines. */
export const mostLogLines = 100_000
const usualLogLines = 1_000

const logsQuery = z.object({
  tail: z
    .string()
    .regex(/^\d{1,6}$/, 'must be a whole number')
    .transform(Number)
    .refine((lines) => lines <= mostLogLines, `must be at most ${mostLogLines}`)
    .default(usualLogLines),
  since: z.iso.datetime({ offset: true, error: 'must be a time such as 2026-07-01T12:00:00Z (RFC 3339)' }).optional(),
  stream: z.enum(['build', 'runtime'], { error: 'must be build or runtime' }).optional(),
  timestamps: z
    .enum(['true', 'false'], { error: 'must be true or false' })
    .transform((value) => value === 'true')
    .default(false),
})

export const deploymentOperations = {
  'deployments.list': {
    summary: 'List deployments',
    description: 'All deployments of the project, newest first.',
    response: z.object({ deployments: z.array(deployment) }),
  },
  'deployments.create': {
    summary: 'Deploy an app',
    description:
      'Fetches, builds and starts the repository. `name` names the app: a second deployment of the same name is a new ' +
      'release of that app and takes over its address. Without `branch` the default branch is deployed; with `commit` ' +
      'that very commit. `git_token` lets a private repository be read over https; it is kept encrypted until the fetch ' +
      'is over, and never shown. `keep_env_vars` names variables whose values are taken from the deployment of the same ' +
      'app that was created, rolled back to or restarted last; a value in `env_vars` goes before it.',
    body: z.object({
      name: name,
      git_url: z.string(required('a string')).max(2048, 'must be at most 2048 characters'),
      branch: z.string().max(255, 'must be at most 255 characters').optional(),
      commit: commit.optional(),
      git_token: gitToken.optional(),
      env_vars: variables.optional(),
      keep_env_vars: variableNames.optional(),
    }),
    volatile: ['git_token'],
    response: deployment,
  },
  'deployments.get': {
    summary: 'Read a deployment',
    description:
      'One deployment with its source, the names of its variables, its times and, when it failed, the reason.',
    response: deploymentDetail,
  },
  'deployments.delete': {
    summary: 'Delete a deployment',
    description:
      'Removes it with its files and logs; the last one of an app frees the address of the app. One that is building ' +
      'must be canceled before, one that runs must be stopped.',
  },
  'deployments.cancel': {
    summary: 'Cancel a deployment',
    description:
      'Ends the work on a deployment that is building and frees everything that it holds. A release of the app that ' +
      'runs goes on. Does nothing to one that is canceled already.',
    response: deploymentDetail,
  },
  'deployments.rollback': {
    summary: 'Roll back to a deployment',
    description:
      'Brings an earlier release of the app back without a build: the same files, variables and plan. It is `building` ' +
      'until it answers and has the address. Whatever of the app is being built at the time is superseded. The five ' +
      'newest releases besides the one that runs are kept for this.',
    response: deploymentDetail,
  },
  'deployments.stop': {
    summary: 'Stop a deployment',
    description:
      'Ends the app after its running requests; its address answers 503 until a release of it is started again. Does ' +
      'nothing to one that is stopped already.',
    response: deploymentDetail,
  },
  'deployments.restart': {
    summary: 'Restart a deployment',
    description:
      'Ends the processes of a release that runs, is stopped or could not be kept running, and starts it anew, without ' +
      'a build. It is `building` until it answers; meanwhile its address answers 503.',
    response: deploymentDetail,
  },
  'deployments.logs': {
    summary: 'Read the log of a deployment',
    description:
      'The last `tail` lines of the build and of the app, or of the one named by `stream`; with `since` only those ' +
      'written then or later; with `timestamps` each begins with its time and its stream. With ' +
      '`Accept: text/event-stream` the lines are followed as they come, as server-sent events from `Last-Event-ID` on, ' +
      'each with its time; the event `end` tells that no further line will come. Values of the variables are masked.',
    query: logsQuery,
  },
} as const satisfies Declarations<'deployments'>
