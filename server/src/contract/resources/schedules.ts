import { z } from 'zod'
import type { Declarations } from '../declaration.ts'
import { required, slug, timestamp } from './common.ts'
import { commandWords } from './runs.ts'

export const overlaps = ['forbid', 'allow', 'replace'] as const

const scheduleName = slug.describe('Lower-case letters, digits and hyphens. No two schedules of an app have the same.')
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
    '`forbid` skips a time while the command still runs, `allow` begins another one, `replace` ends the earlier one.',
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
      'Runs a command of the app at the times of a schedule, in the release that serves it then. Each time begins one run, also ' +
      'when servers end meanwhile; several times that were missed begin one, late.',
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
    description: 'Fields that are left out stay. A run that is under way goes on.',
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
