import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { name, slug, timestamp } from './common.ts'

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

export const projectOperations = {
  'projects.list': {
    summary: 'List projects',
    description: 'All projects of the account, newest first.',
    response: z.object({ projects: z.array(projectItem), total: z.int().nonnegative() }),
  },
  'projects.create': {
    summary: 'Create a project',
    description: 'A project is the container for deployments. `region` and `plan` have defaults.',
    body: z.object({ name: name, region: slug.optional(), plan: slug.optional() }),
    response: projectCreated,
  },
  'projects.get': {
    summary: 'Read a project',
    description: 'One project with the number of its resources.',
    response: project,
  },
} as const satisfies Declarations<'projects'>
