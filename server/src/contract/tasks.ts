import { z } from 'zod'
import type { Declarations } from './declaration.ts'
import { required, slug, timestamp } from './fields.ts'

export const runStatuses = ['waiting', 'running', 'succeeded', 'failed', 'canceled', 'skipped'] as const
export type RunStatus = (typeof runStatuses)[number]

const mostWords = 200
const mostBytes = 32_768

/** A program and its arguments, which no shell reads. */
const commandWords = z
  .array(z.string({ error: 'must be a string' }), required('a list of strings'))
  .min(1, 'must name a program')
  .max(mostWords, `must have at most ${mostWords} words`)
  .refine((words) => words[0] !== '', 'must name a program')
  .refine(
    (words) => words.every((word) => word.isWellFormed() && !word.includes('\0')),
    'must be well-formed Unicode without the character NUL',
  )
  .refine(
    (words) => words.reduce((sum, word) => sum + word.length, 0) <= mostBytes,
    `must have at most ${mostBytes} characters`,
  )

const side = (most: number) =>
  z.int('must be a whole number').min(1, 'must be at least 1').max(most, `must be at most ${most}`)

const run = z.object({
  id: z.string().describe('`run_…`.'),
  app_id: z.string(),
  deployment_id: z.string().nullable().describe('The release in which it ran; `null` before it began.'),
  schedule_id: z.string().nullable().describe('The schedule that started it; `null` for a one-off command.'),
  due_at: timestamp.nullable().describe('Its time in the schedule; `null` for a one-off command.'),
  command: z.array(z.string()).describe('The program and its arguments.'),
  terminal: z.boolean().describe('True when it has a terminal.'),
  status: z.enum(runStatuses),
  exit_code: z.int().nullable().describe('The exit status of the command; `null` when a signal ended it.'),
  signal: z.string().nullable().describe('The signal that ended the command, such as `SIGTERM`.'),
  problem: z.string().nullable().describe('The reason why it did not run, or was ended.'),
  created_at: timestamp,
  started_at: timestamp.nullable(),
  finished_at: timestamp.nullable(),
})

export const runOperations = {
  'runs.list': {
    summary: 'List the runs of an app',
    description: 'One-off and scheduled commands, newest first. The newest are kept.',
    query: z.object({
      schedule_id: z.string().max(100, 'must be an id').optional().describe('Only runs of this schedule.'),
    }),
    response: z.object({ runs: z.array(run) }),
  },
  'runs.create': {
    summary: 'Run a command',
    description:
      'Makes a one-off command of the app. It begins when a client connects with its `ticket`, in the release that serves the ' +
      'app then: with its variables, limits and user. `fairlead run` does both. It ends when the key or the session that made ' +
      'it ends.',
    body: z.object({
      command: commandWords.describe('The program and its arguments. No shell reads them.'),
      terminal: z
        .object({ columns: side(1_000), rows: side(1_000) })
        .nullish()
        .describe('The size of its terminal; without this, the command gets pipes.'),
    }),
    response: run.extend({
      connect: z
        .object({
          path: z.string().describe('The path of the WebSocket.'),
          ticket: z.string().describe('Used once, as a subprotocol of the WebSocket after `fairlead.run.v1`.'),
          expires_at: timestamp,
        })
        .describe('How to connect to the command.'),
    }),
  },
  'runs.get': {
    summary: 'Read a run',
    description: "One run, with the end of the command's output.",
    response: run.extend({
      output: z
        .string()
        .nullable()
        .describe(
          'The last 64 kB of its output and its errors, with the values of variables masked; `null` before it ' +
            'ended, and for a command in a terminal. For a one-off command it needs the permission `runs:write`, as ' +
            'the command does.',
        ),
    }),
  },
  'runs.cancel': {
    summary: 'Cancel a run',
    description:
      'Ends a one-off or scheduled command by SIGTERM, and by SIGKILL some seconds later. The answer comes before ' +
      'the end: read the run again. A run that has ended stays as it is.',
    response: run,
  },
} as const satisfies Declarations<'runs'>

export const overlaps = ['forbid', 'allow', 'replace'] as const

const scheduleName = slug.describe('Lower-case letters, digits and hyphens. Unique among the schedules of an app.')
const times = z
  .string(required('a string'))
  .max(100, 'must be at most 100 characters')
  .describe('Five fields as in crontab: minute, hour, day of the month, month, day of the week.')
const timezone = z
  .string('must be a string')
  .max(64, 'must be at most 64 characters')
  .describe('Such as `Europe/Berlin`.')
const overlap = z
  .enum(overlaps, { error: `must be one of: ${overlaps.join(', ')}` })
  .describe(
    '`forbid` skips a time while the command still runs, `allow` starts another command, `replace` ends the earlier' +
      ' command.',
  )
const command = commandWords.describe('The program and its arguments. No shell reads them.')

const schedule = z.object({
  id: z.string().describe('`sched_…`.'),
  app_id: z.string(),
  name: z.string(),
  schedule: z.string(),
  timezone: z.string(),
  command: z.array(z.string()),
  overlap: z.enum(overlaps),
  from_file: z.boolean().describe('True when `fairlead.json` has it: the next deployment writes it again.'),
  next_at: timestamp.describe('The next time.'),
  next_times: z.array(timestamp).describe('The next times, at most five.'),
  created_at: timestamp,
})

export const scheduleOperations = {
  'schedules.list': {
    summary: 'List the schedules of an app',
    description: 'Newest first. Their runs are in the list of runs, by `schedule_id`.',
    response: z.object({ schedules: z.array(schedule) }),
  },
  'schedules.create': {
    summary: 'Create a schedule',
    description:
      'Runs a command of the app at the times of a schedule, in the release that serves it then. Each time starts ' +
      'one run, also when servers end; several missed times start one late run.',
    body: z.object({
      name: scheduleName,
      schedule: times,
      timezone: timezone.default('UTC'),
      command,
      overlap: overlap.default('forbid'),
    }),
    response: schedule,
  },
  'schedules.get': { summary: 'Read a schedule', description: 'One schedule with its next time.', response: schedule },
  'schedules.update': {
    summary: 'Change a schedule',
    description: 'Omitted fields stay. A run that is under way goes on.',
    body: z.object({
      name: scheduleName.optional(),
      schedule: times.optional(),
      timezone: timezone.optional(),
      command: command.optional(),
      overlap: overlap.optional(),
    }),
    response: schedule,
  },
  'schedules.delete': {
    summary: 'Delete a schedule',
    description: 'A run that is under way goes on; its runs stay in the list of runs.',
  },
} as const satisfies Declarations<'schedules'>
