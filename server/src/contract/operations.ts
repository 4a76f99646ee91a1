import { type EventName, events } from '@fairlead/receiver'
import { z } from 'zod'
import { type OperationName, routes } from './routes.ts'
import * as schemas from './schemas.ts'

/** What an operation takes and gives. Joined with its route, this is all that the server and its clients know of it. */
export interface Declaration {
  readonly summary: string
  readonly description: string
  readonly body?: z.ZodType
  /** Absent where the answer has no body (204). */
  readonly response?: z.ZodType
}

/** The events that receivers can ask for. */
const eventNames = Object.keys(events) as EventName[]

const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and underscores that starts with no digit')

/** Set by the platform itself, so that a value of the app's own would never be seen. */
export const reservedVariables = ['PORT', 'PATH', 'HOME', 'TMPDIR', 'FAIRLEAD_DEPLOYMENT_ID'] as const

const mostVariables = 200
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

const required = (what: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : `must be ${what}`),
})

export const declarations = {
  'projects.list': {
    summary: 'List projects',
    description: 'All projects of the account, newest first.',
    response: z.object({ projects: z.array(schemas.projectItem), total: z.int().nonnegative() }),
  },
  'projects.create': {
    summary: 'Create a project',
    description: 'A project is the container for deployments. `region` and `plan` have defaults.',
    body: z.object({ name: schemas.name, region: schemas.slug.optional(), plan: schemas.slug.optional() }),
    response: schemas.projectCreated,
  },
  'projects.get': {
    summary: 'Read a project',
    description: 'One project with the number of its resources.',
    response: schemas.project,
  },

  'deployments.list': {
    summary: 'List deployments',
    description: 'All deployments of the project, newest first.',
    response: z.object({ deployments: z.array(schemas.deployment) }),
  },
  'deployments.create': {
    summary: 'Deploy an app',
    description:
      'Fetches, builds and starts the repository. `name` names the app: a second deployment of the same name is a new ' +
      'release of that app and takes over its address. Without `branch` the default branch is deployed.',
    body: z.object({
      name: schemas.name,
      git_url: z.string(required('a string')).max(2048, 'must be at most 2048 characters'),
      branch: z.string().max(255, 'must be at most 255 characters').optional(),
      env_vars: variables.optional(),
    }),
    response: schemas.deployment,
  },
  'deployments.get': {
    summary: 'Read a deployment',
    description: 'One deployment with its source, its times and, when it failed, the reason.',
    response: schemas.deploymentDetail,
  },

  'webhooks.list': {
    summary: 'List webhook receivers',
    description: 'All webhook receivers of the account, newest first, without their secrets.',
    response: z.object({ webhooks: z.array(schemas.webhook) }),
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
    response: schemas.webhookCreated,
  },
  'webhooks.delete': {
    summary: 'Delete a webhook receiver',
    description: 'Nothing is sent to it any more, waiting deliveries included.',
  },
} as const satisfies Record<OperationName, Declaration>

type Declarations = typeof declarations

/** What a client may send as the body. */
export type BodyInput<Name extends OperationName> = Declarations[Name] extends { body: infer Body extends z.ZodType }
  ? z.input<Body>
  : undefined

/** What the handler gets as the body. */
export type BodyOutput<Name extends OperationName> = Declarations[Name] extends { body: infer Body extends z.ZodType }
  ? z.output<Body>
  : undefined

/** What the answer's body holds. */
export type ResponseBody<Name extends OperationName> = Declarations[Name] extends {
  response: infer Response extends z.ZodType
}
  ? z.output<Response>
  : undefined

export type Operation = Declaration & { readonly name: OperationName } & (typeof routes)[OperationName]

/** The whole API, one entry an operation. */
export const operations: readonly Operation[] = (Object.keys(routes) as OperationName[]).map((name) => ({
  name,
  ...routes[name],
  ...declarations[name],
}))
