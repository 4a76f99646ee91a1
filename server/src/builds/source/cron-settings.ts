import type { z } from 'zod'
import { fiveFields } from '../../platform/time/five-fields.ts'
import type { CronSettings } from '../build-plan.ts'

// The limits of commands in the API: each time stores the command with its run.
const mostWords = 200
const mostCharacters = 32_768
const lengthOf = (words: readonly string[]): number => words.reduce((sum, { length }) => sum + length, 0)

/** The schedules; `words` is the schema of a command. */
export function cronSchema(zod: typeof z, words: z.ZodType<string[]>) {
  return zod
    .array(
      zod.strictObject({
        name: zod
          .string({ error: 'must be a name' })
          .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be lower-case letters, digits and hyphens, at most 63'),
        schedule: zod
          .string({ error: 'must be five fields, such as "30 4 * * 1-5"' })
          .regex(fiveFields, 'must be five fields, such as "30 4 * * 1-5"')
          .max(100, 'must be at most 100 characters')
          .describe('Minute, hour, day of the month, month, day of the week, as in crontab.'),
        timezone: zod
          .string({ error: 'must be the name of a time zone' })
          .max(64, 'must be at most 64 characters')
          .optional()
          .describe('Such as "Europe/Berlin"; UTC unless it says so here.'),
        command: words
          .refine((given) => given[0] !== '', 'must name a program')
          .refine((given) => given.length <= mostWords, `must have at most ${mostWords} words`)
          .refine((given) => lengthOf(given) <= mostCharacters, `must have at most ${mostCharacters} characters`)
          .describe('The command, in words; no shell reads it.'),
        overlap: zod
          .enum(['forbid', 'allow', 'replace'], { error: 'must be one of: forbid, allow, replace' })
          .optional()
          .describe(
            'At a time when the earlier run has not ended: skips it, begins another one, or ends the earlier one.',
          ),
      }),
      { error: 'must be a list' },
    )
    .max(20, 'must have at most 20 schedules')
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, 'must have no name twice')
    .optional()
    .describe('Commands that run at times, beside the app.')
}

/** Returns the schedules with what they leave out. */
export function cronSettings(given: z.output<ReturnType<typeof cronSchema>>): readonly CronSettings[] | undefined {
  return given?.map(({ command, timezone = 'UTC', overlap = 'forbid', ...rest }) => ({
    ...rest,
    timezone,
    overlap,
    command: command as [string, ...string[]],
  }))
}
