import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { deploymentStatuses } from './deployments.ts'
import { timestamp } from './fields.ts'

const count = z.int().nonnegative()
const milliseconds = z.number().nonnegative().nullable()

const answers = {
  requests: count.describe('All requests, including requests that the gateway answered while no release ran.'),
  status_2xx: count.describe('Answers of 200 to 299. An answer is counted when it is complete or its client has gone.'),
  status_3xx: count,
  status_4xx: count,
  status_5xx: count.describe("Includes answers of the gateway in the app's place."),
  p50_ms: milliseconds.describe(
    "Half of the app's answers began within this time after the request, to within a fifth; `null` without answers. For a " +
      'static site: were complete.',
  ),
  p95_ms: milliseconds,
  p99_ms: milliseconds,
}

const restarts = count.describe('Restarts of instances that ended or were not healthy.')

const point = z.object({
  at: timestamp.describe('The beginning of the step.'),
  ...answers,
  cpus: z
    .number()
    .nonnegative()
    .nullable()
    .describe('All instances together, on average; 1 is one core. `null` unmeasured.'),
  cpu_limit: z.number().nullable().describe('Of all instances together.'),
  memory_bytes: count.nullable().describe('All instances together, the highest measurement; `null` unmeasured.'),
  memory_limit_bytes: count.nullable().describe('Of all instances together.'),
  instances: count
    .nullable()
    .describe('The highest number of running instances of all process types; `null` unmeasured.'),
  restarts,
})

const ranges = ['1h', '24h', '7d'] as const

export const metricsOperations = {
  'metrics.get': {
    summary: 'Read the metrics of an app',
    description:
      'Requests, response times, CPU time, memory, instances and restarts of the app over the last hour by the ' +
      'minute, the last day by ten minutes, or the last seven days by the hour. Oldest first; the last step is ' +
      'incomplete. Requests appear after some 10 seconds, measurements after 30.',
    query: z.object({
      range: z.enum(ranges, { error: `must be one of: ${ranges.join(', ')}` }).default('1h'),
    }),
    response: z.object({
      range: z.enum(ranges),
      step_seconds: z.int(),
      points: z.array(point),
      totals: z.object({ ...answers, restarts }).describe('Over the whole range.'),
      releases: z
        .array(
          z.object({
            id: z.string().describe('`dep_…`.'),
            at: timestamp.describe('The time at which it began to serve.'),
            status: z.enum(deploymentStatuses),
            commit: z.string().nullable(),
          }),
        )
        .describe('The releases that began to serve in this time, oldest first, 100 at most.'),
    }),
  },
} as const satisfies Declarations<'metrics'>
