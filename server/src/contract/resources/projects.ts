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

/** An hour of what the apps of a project were asked. */
const trafficHour = z.object({
  /** When it began: a whole hour of UTC. */
  hour: timestamp,
  requests: z.int().nonnegative(),
  /** Of those, how many were answered with 500 or above. */
  errors: z.int().nonnegative(),
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
  'projects.traffic': {
    summary: 'Read the traffic of a project',
    description:
      'How many requests the apps of the project got, and how many of them were answered with a status of 500 or above, ' +
      'by the app or, when no release of it answers, by the server. 24 entries: the hour that goes on comes last, those ' +
      'without any request are there, too. What has just happened is counted within seconds.',
    response: z.object({ traffic: z.array(trafficHour) }),
  },
} as const satisfies Declarations<'projects'>
