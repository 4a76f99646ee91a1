import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { required, timestamp } from './common.ts'

export const runStatuses = ['waiting', 'running', 'succeeded', 'failed', 'canceled', 'skipped'] as const
export type RunStatus = (typeof runStatuses)[number]

const mostWords = 200
const mostBytes = 32_768

/** A program and its arguments. They are never read by a shell. */
export const commandWords = z
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
  deployment_id: z.string().nullable().describe('The release that it ran in; `null` before it began.'),
  schedule_id: z.string().nullable().describe('The schedule that began it; `null` for a one-off command.'),
  due_at: timestamp.nullable().describe('The time of the schedule that it is for; `null` for a one-off command.'),
  command: z.array(z.string()).describe('The program and its arguments.'),
  terminal: z.boolean().describe('True when it has a terminal.'),
  status: z.enum(runStatuses),
  exit_code: z.int().nullable().describe('The exit status of the command; `null` when a signal ended it.'),
  signal: z.string().nullable().describe('The signal that ended the command, such as `SIGTERM`.'),
  problem: z.string().nullable().describe('The reason why it did not run, or not to an end of its own.'),
  created_at: timestamp,
  started_at: timestamp.nullable(),
  finished_at: timestamp.nullable(),
})

export const runOperations = {
  'runs.list': {
    summary: 'List the runs of an app',
    description: 'One-off commands and those of schedules, newest first. The newest are kept.',
    query: z.object({
      schedule_id: z.string().max(100, 'must be an id').optional().describe('Only those of this schedule.'),
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
        .describe('The size of the terminal that it gets; without, it gets pipes.'),
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
    description: 'One run; with the last of what the command printed.',
    response: run.extend({
      output: z
        .string()
        .nullable()
        .describe(
          'The last 64 kB of its output and its errors, with the values of variables masked; `null` before it ended, and for one in ' +
            'a terminal. That of a one-off command takes the permission `runs:write`, as the command does.',
        ),
    }),
  },
  'runs.cancel': {
    summary: 'Cancel a run',
    description:
      'Ends the command of a run, one-off or of a schedule, by SIGTERM, and by SIGKILL some seconds later. The answer comes ' +
      'before the end: read the run again. One that has ended stays as it is.',
    response: run,
  },
} as const satisfies Declarations<'runs'>
