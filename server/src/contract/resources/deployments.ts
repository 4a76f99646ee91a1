import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { name, required, timestamp } from './common.ts'

export const deploymentStatuses = ['building', 'running', 'failed', 'canceled', 'superseded', 'stopped'] as const
export type DeploymentStatus = (typeof deploymentStatuses)[number]

/** Exactly the fields of the specification. */
export const deployment = z.object({
  id: z.string().describe('`dep_…`.'),
  name: z.string().describe('The name of the app.'),
  status: z.enum(deploymentStatuses),
  url: z.string().describe('The address of the app, known at once and the same for all its releases.'),
  created_at: timestamp,
})

/** The stages that a deployment can fail in. */
export const deploymentStages = ['fetch', 'plan', 'build', 'start', 'switch', 'run'] as const
export type DeploymentStage = (typeof deploymentStages)[number]

const deploymentFailure = z.object({
  stage: z.enum(deploymentStages),
  code: z.string().describe('Stable and machine-readable, such as `unknown_branch`.'),
  message: z.string().describe('The cause and the remedy, for people.'),
})
export type DeploymentFailure = z.infer<typeof deploymentFailure>

/** One deployment, read by its id. */
const deploymentDetail = deployment.extend({
  project_id: z.string(),
  git_url: z.string(),
  branch: z.string().nullable(),
  commit: z.string().nullable().describe('The full hash of the commit that was fetched.'),
  env_var_names: z.array(z.string()).describe('The names of its variables, sorted. Values are never returned.'),
  latest_id: z.string().describe('The deployment of the same app that was created, rolled back to or restarted last.'),
  failure: deploymentFailure.nullable(),
  started_at: timestamp.nullable().describe('The time when work on it began; `null` while it waits.'),
  finished_at: timestamp.nullable().describe('The time when work on it ended; `null` before.'),
})

const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and underscores that starts with no digit')

/** Variables that the platform sets. It would override values that an app gives. */
const reservedVariables = ['PORT', 'PATH', 'HOME', 'TMPDIR', 'FAIRLEAD_DEPLOYMENT_ID', 'FAIRLEAD_CACHE'] as const

const reserved = reservedVariables.map((variable) => `\`${variable}\``).join(', ')

/** The most variables of one app. */
export const mostVariables = 200
/** Linux limits one variable to 128 KiB, and a character takes up to 4 bytes in UTF-8. */
const longestVariable = 32_000

const variableValue = z
  .string({ error: 'must be a string' })
  .max(longestVariable, `must be at most ${longestVariable} characters`)
  .refine((value) => !value.includes('\0'), 'must not contain a NUL character')
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')

// The number is checked first, so that a huge object is not validated entry by entry.
const variables = z
  .custom<Readonly<Record<string, string>>>((given) => Object.keys(Object(given)).length <= mostVariables, {
    error: `must be at most ${mostVariables} variables`,
    abort: true,
  })
  .pipe(z.record(variableName, variableValue, { error: 'must be an object of strings' }))
  .superRefine((given, context) => {
    for (const variable of reservedVariables) {
      if (Object.hasOwn(given, variable)) {
        context.addIssue({ code: 'custom', path: [variable], message: 'is set by the platform; choose another name' })
      }
    }
  })

const variableNames = z
  .array(variableName, { error: 'must be an array of names' })
  .max(mostVariables, `must be at most ${mostVariables} names`)

/** The full hash of a commit (SHA-1 or SHA-256). An abbreviated one can become ambiguous. */
const commit = z
  .string({ error: 'must be a string' })
  .regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/i, 'must be the full hash of a commit: 40 or 64 hexadecimal digits')
  .transform((hash) => hash.toLowerCase())

const gitToken = z
  .string({ error: 'must be a string' })
  .max(1000, 'must be at most 1000 characters')
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces')

/** The most lines of a log in one answer, and the default. */
const mostLogLines = 100_000
const defaultLogLines = 1_000

const logsQuery = z.object({
  tail: z
    .string()
    .regex(/^\d{1,6}$/, 'must be a whole number')
    .transform(Number)
    .refine((lines) => lines <= mostLogLines, `must be at most ${mostLogLines}`)
    .default(defaultLogLines)
    .describe(`The number of lines, at most ${mostLogLines}. Defaults to ${defaultLogLines}.`),
  since: z.iso
    .datetime({ offset: true, error: 'must be a time such as 2026-07-01T12:00:00Z (RFC 3339)' })
    .optional()
    .describe('Only lines written then or later (RFC 3339 with a time zone).'),
  stream: z
    .enum(['build', 'runtime'], { error: 'must be build or runtime' })
    .optional()
    .describe('Only the log of the build or of the app.'),
  timestamps: z
    .enum(['true', 'false'], { error: 'must be true or false' })
    .transform((value) => value === 'true')
    .default(false)
    .describe('True starts each line with its time and its stream. Defaults to false.'),
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
      'Fetches, builds and starts a repository. A project may have as many apps as its plan allows; one more is refused ' +
      '(400).',
    body: z.object({
      name: name.describe(
        'Names the app: a second deployment of the same name is a new release of that app and takes over its address.',
      ),
      git_url: z
        .string(required('a string'))
        .max(2048, 'must be at most 2048 characters')
        .describe(
          '`https://…`, `http://…`, `ssh://user@host/path` or `user@host:path`, without credentials. In local mode also ' +
            '`file:///absolute/path`.',
        ),
      branch: z
        .string()
        .max(255, 'must be at most 255 characters')
        .optional()
        .describe("Defaults to the repository's default branch."),
      commit: commit
        .optional()
        .describe("The full hash of a commit, 40 or 64 hexadecimal digits, to deploy instead of the branch's tip."),
      git_token: gitToken
        .optional()
        .describe(
          'For a private repository over https: a token, or `user:password`. Stored encrypted until the fetch is over, ' +
            'and never returned.',
        ),
      env_vars: variables
        .optional()
        .describe(
          `The app's variables. Stored encrypted, and never returned. The platform sets ${reserved}; they cannot be given.`,
        ),
      keep_env_vars: variableNames
        .optional()
        .describe(
          'Names of variables whose values are copied from the deployment `latest_id` of this app. A value in `env_vars` ' +
            'takes precedence. A name that it does not have is an error, and so is another `git_url`.',
        ),
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
      'Removes a deployment with its files and logs. Removing the last one of an app frees the address of the app. A ' +
      'deployment that is `building` must be canceled first, one that is `running` must be stopped first.',
  },
  'deployments.cancel': {
    summary: 'Cancel a deployment',
    description:
      'Aborts a deployment that is `building` and frees all its resources within 5 s; it becomes `canceled`. The running ' +
      'release of the app is not affected. Canceling twice is no error.',
    response: deploymentDetail,
  },
  'deployments.rollback': {
    summary: 'Roll back to a deployment',
    description:
      'Starts an earlier release of the app again without a build, with the same files, variables and build plan. It is ' +
      '`building` until it answers and has the address, then `running`. Deployments of the app that are being built at the ' +
      'time are superseded. The five newest releases besides the running one are kept for this.',
    response: deploymentDetail,
  },
  'deployments.stop': {
    summary: 'Stop a deployment',
    description:
      'Stops a `running` deployment after its open requests are answered; it becomes `stopped`. The address of the app ' +
      'answers 503 until a release is started again. Stopping twice is no error.',
    response: deploymentDetail,
  },
  'deployments.restart': {
    summary: 'Restart a deployment',
    description:
      'Replaces the processes of a kept release that runs, is stopped or crashed, without a build. It is `building` until ' +
      'it answers, then `running`; meanwhile its address answers 503. Refused (400) while another release of the app is ' +
      'building or running.',
    response: deploymentDetail,
  },
  'deployments.logs': {
    summary: 'Read the log of a deployment',
    description:
      'The last `tail` lines as text, those of the build first. With `Accept: text/event-stream` new lines follow as ' +
      'server-sent events, starting after `Last-Event-ID`; the event `end` says that no more lines will come. Values of ' +
      'variables are masked.',
    query: logsQuery,
  },
} as const satisfies Declarations<'deployments'>
