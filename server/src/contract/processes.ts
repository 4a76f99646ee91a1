import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { timestamp } from './fields.ts'

/** No built-in plan allows more. */
const mostInstances = 1_000

const instance = z.object({
  name: z.string().describe('The type and a number, such as `web.1`.'),
  state: z.enum(['starting', 'running', 'ended']).describe('`ended` until its restart, after pauses that grow.'),
  restarts: z.int().nonnegative().describe('The number of its restarts. Not counted for the first instance of `web`.'),
  started_at: timestamp
    .nullable()
    .describe('`null` for the first instance of `web`, which began with its release or later.'),
  usage: z
    .object({
      memory_bytes: z.int().nonnegative(),
      cpus: z.number().nonnegative().nullable().describe('On average over some 30 seconds; `null` for the first time.'),
      measured_at: timestamp,
    })
    .nullable()
    .describe('The latest measurement; `null` before the first one, and for a static site, which has no process.'),
})

const processes = z.object({
  release_id: z.string().nullable().describe('The running deployment with these process types; `null` when none runs.'),
  max_instances: z.int().describe("The most instances that the project's plan allows the app, over all types."),
  processes: z.array(
    z.object({
      type: z.string().describe('`web` has the address of the app; other types get no requests.'),
      command: z.string(),
      instances: z.int().nonnegative().describe('How many of them should run.'),
      asked: z
        .int()
        .nullable()
        .describe("The number that `processes.update` has set; `null` for the repository's number or the default."),
      memory_mb: z.number().describe('The memory limit of each instance, in 10⁶ bytes.'),
      cpus: z.number().describe('The most CPU time of each.'),
      running: z.array(instance).describe('The instances there are.'),
    }),
  ),
})

export const processOperations = {
  'processes.list': {
    summary: 'List the process types of an app',
    description:
      'The process types of the release that runs, `web` first, each with the number of instances that should run and those ' +
      'that there are.',
    response: processes,
  },
  'processes.update': {
    summary: 'Scale an app',
    description:
      'Sets how many instances of process types run. They start and end while the app goes on: new instances of ' +
      '`web` get requests when they are healthy, and old instances finish their requests. The numbers also apply to' +
      ' later releases.',
    body: z.object({
      processes: z
        .record(
          z.string().max(30, 'must have at most 30 characters'),
          z.object({
            instances: z
              .int('must be a whole number')
              .min(0, 'must not be negative')
              .max(mostInstances, `must be at most ${mostInstances}`)
              .nullable()
              .describe("`null` for the repository's number. At least 1 for `web`."),
          }),
        )
        .describe(
          "By process type, each with its `instances`: a number, or `null` for the repository's number. Omitted " +
            'types keep their numbers.',
        ),
    }),
    response: processes,
  },
} as const satisfies Declarations<'processes'>
