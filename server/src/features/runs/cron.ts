import { Cron } from 'croner'
import { fiveFields } from '../../platform/five-fields.ts'

/**
 * The times of a schedule in a time zone. `schedule` has the five fields of crontab(5): minute, hour, day of the month,
 * month and day of the week.
 */
export interface CronTimes {
  readonly schedule: string
  readonly timezone: string
}

/** Returns the problem with a schedule; `undefined` when it is well-formed and has a next time. */
export function problemOfSchedule(schedule: string): string | undefined {
  if (!fiveFields.test(schedule)) {
    return 'must have five fields: minute, hour, day of the month, month, day of the week, such as "30 4 * * 1-5"'
  }
  try {
    return nextTime({ schedule, timezone: 'UTC' }, new Date()) === null ? 'never comes' : undefined
  } catch {
    return 'has a field that is not in its range, such as an hour of 24'
  }
}

/** True for a name of the IANA database, such as `Europe/Berlin`. */
export function isTimezone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return !/^[+-]/.test(name)
  } catch {
    return false
  }
}

/**
 * Returns the first time after a date; null when there is none. A time that clocks skip in spring occurs right after
 * the skip. A time that clocks show twice in autumn occurs once.
 */
export function nextTime({ schedule, timezone }: CronTimes, after: Date): Date | null {
  return new Cron(schedule, { timezone, paused: true, mode: '5-part' }).nextRun(after)
}

export function nextTimes({ schedule, timezone }: CronTimes, after: Date, most: number): Date[] {
  return new Cron(schedule, { timezone, paused: true, mode: '5-part' }).nextRuns(most, after)
}
