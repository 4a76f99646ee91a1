import { z } from 'zod'

/** RFC 3339, UTC, milliseconds. */
export const timestamp = z.iso.datetime({ precision: 3 })

// Control characters are category Cc; a lone surrogate is not well-formed Unicode.
const printable = /^\P{Cc}*$/u

/** 1 to 100 characters of well-formed Unicode without control characters, trimmed. */
export const name = z
  .string({ error: (issue) => (issue.input === undefined ? 'is required' : 'must be a string') })
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
  .refine((value) => printable.test(value), 'must not contain control characters')
  .transform((value) => value.trim())
  .refine((value) => value.length > 0, 'must not be empty')
  .refine((value) => [...value].length <= 100, 'must be at most 100 characters')

/** A lower-case slug such as `eu-west-1`. */
export const slug = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be lower-case letters, digits and hyphens, at most 63')

export const projectItem = z.object({
  id: z.string(),
  name: z.string(),
  region: z.string(),
  created_at: timestamp,
  status: z.enum(['active']),
})

export const projectCreated = z.object({
  id: z.string(),
  name: z.string(),
  region: z.string(),
  plan: z.string(),
  created_at: timestamp,
})

export const project = projectCreated.extend({
  resources: z.object({
    deployments: z.int().nonnegative(),
    databases: z.int().nonnegative(),
    storage_gb: z.number().nonnegative(),
  }),
})

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
