import { z } from 'zod'
import type { Declarations } from './declaration.ts'

/** The most lines of a log in one answer, and the default. */
export const mostLogLines = 100_000
const defaultLogLines = 1_000

export const logsQuery = z.object({
  tail: z
    .string()
    .regex(/^\d{1,6}$/, 'must be a whole number')
    .transform(Number)
    .refine((lines) => lines <= mostLogLines, `must be at most ${mostLogLines}`)
    .default(defaultLogLines)
    .describe(`The number of lines, at most ${mostLogLines}. Defaults to ${defaultLogLines}.`),
  since: z.iso
    .datetime({ offset: true, error: 'must be a time such as 2026-07-01T12:00:00Z (RFC 3339)' })
    .optional()
    .describe('Only lines written then or later (RFC 3339 with a time zone).'),
  stream: z
    .enum(['build', 'runtime'], { error: 'must be build or runtime' })
    .optional()
    .describe('Only the log of the build or of the app.'),
  process: z
    .string()
    .regex(
      /^[a-z][a-z0-9_-]{0,29}(?:\.[1-9]\d{0,3})?$/,
      'must be a process type or an instance, such as worker or worker.2',
    )
    .optional()
    .describe('Only lines of a process type or of one instance: `worker`, `worker.2`.'),
  timestamps: z
    .enum(['true', 'false'], { error: 'must be true or false' })
    .transform((value) => value === 'true')
    .default(false)
    .describe('True starts each line with its time and its stream. Defaults to false.'),
  processes: z
    .enum(['true', 'false'], { error: 'must be true or false' })
    .transform((value) => value === 'true')
    .default(false)
    .describe(
      'True starts each line, after its time and its stream, with the instance that wrote it, such as `worker.2`, or `build`. ' +
        'Defaults to false.',
    ),
})

const mostLogs = 50

const position =
  /^(proj_\w{26})\/(dep_\w{26}|app_\w{26})(?:\/(\d{1,15}-\d{1,15}(?::[\w:-]{1,3000})?|dep_\w{26}:\d[\w:.-]{0,6000}))?$/

const follow = z
  .string({ error: 'is required' })
  .max(mostLogs * 240, `must name at most ${mostLogs} logs`)
  .transform((given) => given.split(','))
  .refine((logs) => logs.length <= mostLogs, `must name at most ${mostLogs} logs`)
  .refine(
    (logs) => logs.every((log) => position.test(log)),
    'must be `proj_…/dep_…`, `proj_…/app_…`, or one of them with `/id`, with commas',
  )
  .transform((logs) =>
    logs.map((log) => {
      const [, projectId = '', id = '', lastEventId] = position.exec(log) ?? []
      return { projectId, id, lastEventId }
    }),
  )
  .describe(
    `The logs, at most ${mostLogs}, with commas between them: \`proj_…/dep_…\` or \`proj_…/app_…\`, followed by \`/\` and the id of the last ` +
      'event that was received, if one was.',
  )

export const logOperations = {
  'logs.read': {
    summary: 'Read the log of an app',
    description:
      'One log of the running release and of the ten that were created, rolled back to or started last, in this ' +
      'order; as text, a line with the id of the deployment precedes the lines of each release. With `Accept: ' +
      'text/event-stream`, new lines of all running and new releases follow, starting after `Last-Event-ID`: each ' +
      'has the `deployment_id` of its release. Values of variables are masked.',
    query: logsQuery,
  },
  'logs.follow': {
    summary: 'Follow several logs',
    description:
      'The logs of several deployments or apps as one stream of server-sent events, because browsers allow a site ' +
      'six connections. The data of each event names a log by its `index` in `follow`, and has either `events`, a ' +
      'text with the events of that log as `deployments.logs` or `logs.read` streams them, or an `error`, which ' +
      'ends that log.',
    query: z.object({ follow }),
  },
} as const satisfies Declarations<'logs'>
