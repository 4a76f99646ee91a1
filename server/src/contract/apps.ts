import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import {
  deployedImage,
  deployment,
  deploymentFailure,
  deploymentStatuses,
  gitToken,
  releaseTrigger,
} from './deployments.ts'
import { name, timestamp } from './fields.ts'

/** One release of an app: a deployment with source and times. */
export const release = z.object({
  id: z.string().describe('The id of the deployment, `dep_…`.'),
  status: z.enum(deploymentStatuses),
  git_url: z.string().nullable().describe('`null` for an uploaded source or an image.'),
  image: deployedImage,
  branch: z.string().nullable(),
  commit: z
    .object({
      hash: z.string().describe('In full.'),
      message: z
        .string()
        .nullable()
        .describe('The beginning of its message, at most 1,000 characters, without the values of variables.'),
      author: z.string().nullable().describe('The name of its author.'),
      at: timestamp.nullable().describe('The time at which it was committed.'),
    })
    .nullable()
    .describe('The commit that was fetched; `null` before.'),
  trigger: releaseTrigger.describe('The cause of the release as it is now.'),
  kept: z.boolean().describe('True while its files are kept, so that it can start again without a build.'),
  failure: deploymentFailure.nullable(),
  created_at: timestamp,
  started_at: timestamp.nullable().describe('The time when work on it began; `null` while it waits.'),
  finished_at: timestamp.nullable().describe('The time when work on it ended; `null` before.'),
  duration_ms: z.int().nonnegative().nullable().describe('The time from the beginning of the work to its end.'),
})

const app = z.object({
  id: z.string().describe('`app_…`.'),
  name: z.string(),
  url: z.string().describe('The same for all its releases.'),
  domains: z.array(z.string()).describe('The verified domains that lead to it, the primary one first.'),
  serving: release.nullable().describe('The release that answers at the address; `null` when none does.'),
  latest: release.describe('The release that was created, rolled back to or restarted last, in any state.'),
  created_at: timestamp,
})

export const appOperations = {
  'apps.list': {
    summary: 'List apps',
    description: 'The apps of the project, newest first, each with the release that serves it and the latest one.',
    response: z.object({ apps: z.array(app) }),
  },
  'apps.get': {
    summary: 'Read an app',
    description: 'One app with the release that serves it and the latest one.',
    response: app,
  },
  'apps.update': {
    summary: 'Rename an app',
    description:
      'Its address and its releases stay. Deployments of the new name are releases of it from now on; a deployment ' +
      'of the old name makes another app.',
    body: z.object({ name: name.describe('Another app of the project must not have it.') }),
    response: app,
  },
  'apps.delete': {
    summary: 'Delete an app',
    description:
      'Cancels what is building, stops the app, and removes all its deployments with their files and logs. Its address is ' +
      'free from then on.',
  },
  'apps.apply': {
    summary: 'Apply the variables of an app',
    description:
      'Deploys the serving commit or image again, with the current variables of the app, and answers with the new ' +
      'deployment. The `env_vars` of the serving deployment stay. When no deployment serves, the commit of the ' +
      'latest is deployed. Refused (400) while a deployment of the app is building.',
    body: z.object({
      git_token: gitToken.optional().describe('As in `deployments.create`, when the repository is private.'),
    }),
    volatile: ['git_token'],
    response: deployment,
  },
} as const satisfies Declarations<'apps'>

export const releaseOperations = {
  'releases.list': {
    summary: 'List the releases of an app',
    description: 'All deployments of the app, newest first, filtered by `status`, `branch` and `search`.',
    query: z.object({
      status: z
        .enum(deploymentStatuses, { error: `must be one of: ${deploymentStatuses.join(', ')}` })
        .optional()
        .describe('Only those in this state.'),
      branch: z
        .string()
        .max(255, 'must be at most 255 characters')
        .optional()
        .describe('Only releases of this branch.'),
      search: z
        .string()
        .max(100, 'must be at most 100 characters')
        .optional()
        .describe(
          'Only deployments whose id or commit begins with the text, or whose branch, commit message or author ' +
            'contains it.',
        ),
    }),
    response: z.object({ releases: z.array(release) }),
  },
} as const satisfies Declarations<'releases'>

export const activityOperations = {
  'activity.list': {
    summary: 'List the releases of all apps',
    description: 'The releases of all apps of the project, newest first.',
    response: z.object({
      releases: z.array(release.extend({ app: z.object({ id: z.string().describe('`app_…`.'), name: z.string() }) })),
    }),
  },
  'activity.outcomes': {
    summary: 'Count the outcomes of deployments',
    description:
      'The deployments that were created in the last 15 days, counted by quarters of an hour, so that clients of all time ' +
      'zones can add up their days. Oldest first; quarters without a deployment are left out.',
    response: z.object({
      outcomes: z.array(
        z.object({
          at: timestamp.describe('The start of the quarter.'),
          succeeded: z.int().nonnegative().describe('`running`, `superseded` or `stopped`.'),
          failed: z.int().nonnegative(),
          other: z.int().nonnegative().describe('`building` or `canceled`.'),
        }),
      ),
    }),
  },
} as const satisfies Declarations<'activity'>
