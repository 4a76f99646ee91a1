import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { name, slug, timestamp } from './fields.ts'

const id = z.string().describe('`proj_…`.')

const projectItem = z.object({
  id,
  name: z.string(),
  region: z.string(),
  created_at: timestamp,
  status: z.enum(['active', 'deleting']).describe('`deleting` until all its resources are removed.'),
})

const projectCreated = z.object({
  id,
  name: z.string(),
  region: z.string(),
  plan: z.string(),
  created_at: timestamp,
})

const resources = z.object({
  deployments: z.int().nonnegative(),
  databases: z.int().nonnegative(),
  storage_gb: z.number().nonnegative().describe('The size of all files, in 10⁹ bytes.'),
})

export const project = projectCreated.extend({ resources })

const trafficHour = z.object({
  hour: timestamp.describe('The start: a whole hour of UTC.'),
  requests: z.int().nonnegative(),
  errors: z.int().nonnegative().describe('The requests that were answered with a status of 500 or above.'),
})

export const projectOperations = {
  'projects.list': {
    summary: 'List projects',
    description: 'All projects of the account, newest first.',
    response: z.object({
      projects: z.array(projectItem),
      total: z.int().nonnegative().describe('The number of projects on all pages.'),
    }),
  },
  'projects.create': {
    summary: 'Create a project',
    description: 'A project contains deployments, databases and files.',
    body: z.object({
      name: name.describe('Need not be unique.'),
      region: slug.optional().describe('A slug such as `eu-1`. Defaults to the region in the configuration.'),
      plan: slug
        .optional()
        .describe('`free` (the default), `starter`, `pro` or `enterprise`, as far as the plan of the account allows.'),
    }),
    response: projectCreated,
  },
  'projects.get': {
    summary: 'Read a project',
    description: 'One project with a count of its resources.',
    response: project,
  },
  'projects.update': {
    summary: 'Change a project',
    description: 'Omitted fields keep their values. The region cannot be changed.',
    body: z.object({ name: name.optional(), plan: slug.optional() }),
    response: project,
  },
  'projects.delete': {
    summary: 'Delete a project',
    description:
      'Stops its apps and removes them with their deployments, and its webhook endpoints. Until then, the list ' +
      'shows the project as `deleting`; other operations do not find it. A project with databases or files is not ' +
      'deleted (400): delete them first.',
  },
  'projects.usage': {
    summary: 'Count the resources of projects',
    description: 'The resources of each project of the account, in the order of the list of projects.',
    response: z.object({ usage: z.array(z.object({ id, resources })) }),
  },
  'projects.traffic': {
    summary: 'Read the traffic of a project',
    description:
      'The requests to the apps of the project, and how many of them were answered with a status of 500 or above by the ' +
      'app or, when no release of it answers, by the server. There are 24 entries, the oldest first and the current hour ' +
      "last; hours without requests are included. Requests are counted within seconds. The server's own checks of new " +
      'releases count, too.',
    response: z.object({ traffic: z.array(trafficHour) }),
  },
} as const satisfies Declarations<'projects'>
