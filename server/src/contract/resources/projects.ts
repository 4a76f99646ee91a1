import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { name, slug, timestamp } from './common.ts'

export const projectItem = z.object({
  id: z.string(),
  name: z.string(),
  region: z.string(),
  created_at: timestamp,
  status: z.enum(['active', 'deleting']),
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
  'projects.update': {
    summary: 'Change a project',
    description: 'What is left out stays. The region cannot be changed: what runs in the project runs there.',
    body: z.object({ name: name.optional(), plan: slug.optional() }),
    response: project,
  },
  'projects.delete': {
    summary: 'Delete a project',
    description:
      'Its apps are stopped and removed with their deployments and receivers; until that is done the list shows it as ' +
      '`deleting`. A project that has databases or files is not deleted: delete them first.',
  },
} as const satisfies Declarations<'projects'>
