import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { name, printable, timestamp } from './fields.ts'
import { formatImageReference, longestReference, parseImageReference } from './image-reference.ts'
import { logsQuery } from './logs.ts'
import { workflowRun } from './trust.ts'
import { freeVariableName, reservedVariables, variableNames, variables } from './variables.ts'
import { imageVolumes } from './volumes.ts'

/** The image in a request to deploy. Parsing adds registry and tag. */
const imageToDeploy = z
  .string({ error: 'must be a string' })
  .max(longestReference, `must be at most ${longestReference} characters`)
  .transform((text, context) => {
    const parsed = parseImageReference(text)
    if (!('problem' in parsed)) return formatImageReference(parsed)
    context.addIssue({ code: 'custom', message: parsed.problem })
    return z.NEVER
  })
  .describe(
    'A container image, in place of `git_url` and its fields: `registry/name:tag` or `registry/name@sha256:…`. ' +
      'Names without a registry belong to Docker Hub. The tag is resolved once, and the digest is kept. The project ' +
      'may have credentials for the registry (`registries.set`). Needs a server that runs containers.',
  )

export const deployedImage = z
  .object({
    reference: z.string().describe('As requested, with registry and tag.'),
    digest: z.string().nullable().describe('The deployed digest, `sha256:…`; `null` before it is known.'),
  })
  .nullable()
  .describe('The image of its creation; `null` for a repository or an uploaded source.')

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

export const deploymentStages = ['fetch', 'plan', 'build', 'start', 'switch', 'run'] as const
export type DeploymentStage = (typeof deploymentStages)[number]

/**
 * The steps of a deployment in order. A rollback or restart has no `fetch`, `plan` and `build`; a promotion has `copy`
 * instead of the first two.
 */
export const deploymentSteps = ['queued', 'fetch', 'copy', 'plan', 'build', 'start', 'check', 'switch'] as const
export type DeploymentStep = (typeof deploymentSteps)[number]

export const deploymentStep = z.object({
  name: z
    .enum(deploymentSteps)
    .describe('`queued` comes again before `build` when the deployment waits for a build slot.'),
  started_at: timestamp,
  finished_at: timestamp.nullable().describe('`null` while the step is in progress.'),
})
export type StepTimes = z.output<typeof deploymentStep>

export const deploymentFailure = z.object({
  stage: z.enum(deploymentStages),
  code: z.string().describe('Stable and machine-readable, such as `unknown_branch`.'),
  message: z.string().describe('The cause and the remedy, for people.'),
  suggestions: z
    .array(
      z.object({
        root: z.string().describe('A folder of the repository, for `root` of another deployment.'),
        kind: z.string().describe('How the app there was recognised, such as `node` or `python`.'),
      }),
    )
    .describe('Folders with an app, if the top of the repository cannot be started; else empty.'),
})
export type Suggestion = z.infer<typeof deploymentFailure>['suggestions'][number]

const triggerKinds = ['user', 'key', 'workflow'] as const

/** Fields of a workflow run are `null` for other kinds. */
export const deploymentTrigger = z.object({
  kind: z.enum(triggerKinds).describe('`workflow` is a run that exchanged a token of its issuer for a key.'),
  name: z.string().nullable().describe('The e-mail address of the user, or the name of the key.'),
  ...workflowRun.pick({ repository: true, run_url: true, actor: true, event: true }).shape,
})
export type DeploymentTrigger = z.output<typeof deploymentTrigger>

/** The latest creation, rollback or restart of a release. */
export const releaseTrigger = deploymentTrigger.extend({
  kind: z
    .enum([...triggerKinds, 'rollback', 'restart', 'variables'])
    .describe(
      '`rollback` or `restart` after it was started again, `variables` when `apps.apply` made it; else the kind of ' +
        'its creator.',
    ),
  by: z.enum(triggerKinds).describe('The kind of the caller; the other fields are about it, too.'),
})

const deploymentDetail = deployment.extend({
  project_id: z.string(),
  app_id: z.string().describe('`app_…`.'),
  git_url: z.string().nullable().describe('`null` for an uploaded source or an image.'),
  source_id: z.string().nullable().describe('The uploaded source; `null` for other deployments.'),
  image: deployedImage,
  from_deployment_id: z
    .string()
    .nullable()
    .describe(
      'The deployment whose release this deployment reuses without another build; `null` for other deployments.',
    ),
  branch: z.string().nullable(),
  commit: z.string().nullable().describe('The full hash of the commit that was fetched.'),
  commit_message: z
    .string()
    .nullable()
    .describe('The beginning of its message, at most 1,000 characters, without the values of variables.'),
  commit_author: z.string().nullable().describe('The name of its author.'),
  trigger: deploymentTrigger.describe('The creator.'),
  root: z.string().nullable().describe('The folder of the app at its creation; `null` without.'),
  env_var_names: z.array(z.string()).describe('The names of its variables, sorted. Values are never returned.'),
  latest_id: z.string().describe('The deployment of the same app that was created, rolled back to or restarted last.'),
  kept: z.boolean().describe('True while its files are kept, so that it can start again without a build.'),
  failure: deploymentFailure.nullable(),
  started_at: timestamp.nullable().describe('The time when work on it began; `null` while it waits.'),
  finished_at: timestamp.nullable().describe('The time when work on it ended; `null` before.'),
  builds_before: z
    .int()
    .nullable()
    .describe(
      'The number of builds that end before its build begins, including earlier builds of its app; `null` when it ' +
        'does not wait.',
    ),
  steps: z
    .array(deploymentStep)
    .describe(
      'The steps since its creation or its latest rollback or restart, with their times. The last step of a failed ' +
        'deployment is the step that failed.',
    ),
})

/** A full hash (SHA-1 or SHA-256), because an abbreviated hash can become ambiguous. */
const commit = z
  .string({ error: 'must be a string' })
  .regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/i, 'must be the full hash of a commit: 40 or 64 hexadecimal digits')
  .transform((hash) => hash.toLowerCase())

/** Normalised: without `./` and a trailing slash. */
const folder = z
  .string({ error: 'must be a string' })
  .max(1000, 'must be at most 1000 characters')
  .refine((path) => path.isWellFormed() && printable.test(path), 'must not contain control characters')
  .transform(
    (path) =>
      path
        .split('/')
        .filter((part) => part !== '' && part !== '.')
        .join('/') || '.',
  )
  .refine((path) => !path.split('/').includes('..'), 'must be a folder inside the repository')

const reserved = reservedVariables.map((variable) => `\`${variable}\``).join(', ')

/** The fields for the source of a deployment. A request has exactly one of them. */
const sourceFields = ['git_url', 'source_id', 'from_deployment_id', 'image'] as const
const repositoryFields = ['branch', 'commit', 'git_token'] as const

const givenOf = <Name extends string>(body: unknown, names: readonly Name[]): Name[] =>
  names.filter((name) => (Object(body) as Record<string, unknown>)[name] !== undefined)

/**
 * Refuses a body without exactly one source. Runs even when other fields are wrong, so that one answer names all
 * problems.
 */
function checkSourceFields({ value, issues }: z.core.ParsePayload): void {
  const [source, ...others] = givenOf(value, sourceFields)
  const refuse = (field: string, message: string) =>
    issues.push({ code: 'custom', input: value, path: [field], message })
  if (source === undefined) refuse('git_url', 'is required, or source_id, from_deployment_id or image in its place')
  for (const other of others) refuse(other, `cannot be given together with ${source}`)
  if (source !== 'image' && givenOf(value, ['volumes']).length > 0) {
    refuse('volumes', 'can be given only with image: fairlead.json of a repository names its volumes')
  }
  if (source !== undefined && source !== 'git_url' && others.length === 0) {
    for (const field of givenOf(value, repositoryFields)) refuse(field, 'can be given only with git_url')
    const why = { source_id: null, from_deployment_id: 'comes from the deployment', image: 'is only for sources' }[
      source
    ]
    if (why !== null) for (const field of givenOf(value, ['root'])) refuse(field, why)
  }
}

const oneSource = z.core._check(checkSourceFields, { when: () => true })

export const gitToken = z
  .string({ error: 'must be a string' })
  .max(1000, 'must be at most 1000 characters')
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces')

export const deploymentOperations = {
  'deployments.list': {
    summary: 'List deployments',
    description: 'All deployments of the project, newest first.',
    response: z.object({ deployments: z.array(deployment) }),
  },
  'deployments.create': {
    summary: 'Deploy an app',
    description:
      'Fetches, builds and starts a repository, builds and starts an uploaded source, pulls and starts a container ' +
      'image, or starts the release of another deployment without a build. A project may have as many apps as its ' +
      'plan allows; one more is refused (400).',
    body: z
      .object({
        name: name.describe(
          'The name of the app: another deployment of the same name is a new release of that app and takes over its' +
            ' address.',
        ),
        git_url: z
          .string({ error: 'must be a string' })
          .max(2048, 'must be at most 2048 characters')
          .optional()
          .describe(
            '`https://…`, `http://…`, `ssh://user@host/path` or `user@host:path`, without credentials. For the ' +
              'operator in local mode also `file:///absolute/path`. Required, unless one of the next three is given.',
          ),
        source_id: z
          .string({ error: 'must be a string' })
          .max(100, 'must be the id of a source')
          .optional()
          .describe('An uploaded source, in place of `git_url`, `branch`, `commit` and `git_token`.'),
        from_deployment_id: z
          .string({ error: 'must be a string' })
          .max(100, 'must be the id of a deployment')
          .optional()
          .describe(
            'A deployment whose release is kept, in place of `git_url`, `branch`, `commit`, `git_token` and `root`:' +
              ' its files are released in this app without another build. It may belong to any app of the account ' +
              'that the key may use. The release has the variables of this app.',
          ),
        image: imageToDeploy.optional(),
        volumes: imageVolumes.optional(),
        branch: z
          .string()
          .max(255, 'must be at most 255 characters')
          .optional()
          .describe("Defaults to the repository's default branch."),
        commit: commit
          .optional()
          .describe("The full hash of a commit, 40 or 64 hexadecimal digits, to deploy instead of the branch's tip."),
        root: folder
          .optional()
          .describe(
            'The folder of the app in the source, in place of `root` in `fairlead.json`. A lock file may be there or at ' +
              'the top.',
          ),
        git_token: gitToken
          .optional()
          .describe(
            'For a private repository over https: a token, or `user:password`. Stored encrypted until the fetch is over, ' +
              'and never returned.',
          ),
        env_vars: variables
          .optional()
          .describe(
            'Variables of this release, and of everything that is made from it by a restart, a rollback or ' +
              '`apps.apply`. It also has the variables of the app; these variables take precedence. Stored encrypted,' +
              ` and never returned. The platform sets ${reserved}; you cannot set them.`,
          ),
        databases: z
          .record(freeVariableName, z.string({ error: 'must be the id of a database' }), {
            error: 'must be ids by variables, such as { "DATABASE_URL": "db_…" }',
          })
          .optional()
          .describe(
            'Links databases of the project to the app, as `links.create` does: the id of each database by the ' +
              'variable for its connection string, such as `{ "DATABASE_URL": "db_…" }`.',
          ),
        keep_env_vars: variableNames
          .optional()
          .describe(
            'Names of variables whose values are copied from the `env_vars` of the deployment `latest_id` of this ' +
              'app. A value in `env_vars` takes precedence, and a variable of the app follows the app. An unknown ' +
              'name is an error, and so is another `git_url`, or an uploaded source in place of a `git_url`.',
          ),
        env_vars_for: z
          .enum(['release', 'app'], { error: 'must be release or app' })
          .default('release')
          .describe(
            'With `app`, `env_vars` become variables of the app, and so do the `env_vars` of its previous ' +
              'deployment: later releases have them, too. Not with `keep_env_vars`. Defaults to `release`.',
          ),
      })
      .check(oneSource)
      .refine(({ env_vars_for, keep_env_vars }) => env_vars_for !== 'app' || keep_env_vars === undefined, {
        path: ['keep_env_vars'],
        error: 'cannot be given with env_vars_for: app, which keeps all',
      })
      .meta({
        oneOf: sourceFields.map((field) => ({
          required: [field],
          ...(field === 'image' ? {} : { not: { properties: { volumes: {} }, required: ['volumes'] } }),
        })),
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
      'Removes a deployment with its files and logs. Removing the last one of an app frees the address of the app. ' +
      'Cancel a deployment that is `building` first, and stop a deployment that is `running` first.',
  },
  'deployments.cancel': {
    summary: 'Cancel a deployment',
    description:
      'Aborts a deployment that is `building` and frees all its resources within 5 s; it becomes `canceled`. The running ' +
      'release of the app is not affected. Canceling twice is not an error.',
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
      'answers 503 until a release is started again. Stopping twice is not an error.',
    response: deploymentDetail,
  },
  'deployments.restart': {
    summary: 'Restart a deployment',
    description:
      'Replaces the processes of a kept release that runs, is stopped or crashed, without a build. It is `building`' +
      ' until it answers, then `running`; until then its address answers 503. Refused (400) while another release ' +
      'of the app is building or running.',
    response: deploymentDetail,
  },
  'deployments.logs': {
    summary: 'Read the log of a deployment',
    description:
      'The last `tail` lines as text: first the lines of the build, then the lines of all instances in the order of' +
      ' their times. With `Accept: text/event-stream` new lines follow as server-sent events, starting after ' +
      '`Last-Event-ID`, each with the instance that wrote it as its `process`; the event `end` says that no more ' +
      'lines will come. Values of variables are masked.',
    query: logsQuery,
  },
} as const satisfies Declarations<'deployments'>
