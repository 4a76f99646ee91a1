import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { name, required, timestamp } from './common.ts'

export const deploymentStatuses = ['building', 'running', 'failed', 'superseded'] as const
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
  failure: deploymentFailure.nullable(),
  started_at: timestamp.nullable(),
  finished_at: timestamp.nullable(),
})

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
      'release of that app and takes over its address. Without `branch` the default branch is deployed.',
    body: z.object({
      name: name,
      git_url: z.string(required('a string')).max(2048, 'must be at most 2048 characters'),
      branch: z.string().max(255, 'must be at most 255 characters').optional(),
      env_vars: variables.optional(),
    }),
    response: deployment,
  },
  'deployments.get': {
    summary: 'Read a deployment',
    description: 'One deployment with its source, its times and, when it failed, the reason.',
    response: deploymentDetail,
  },
} as const satisfies Declarations<'deployments'>
