import { invalidRequest, notFound } from '../contract/errors.ts'
import type { ResponseBody } from '../contract/operations.ts'
import type { HandlersOf } from '../http/call.ts'
import type { Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { type CronTimes, isTimezone, nextTime, nextTimes, problemOfSchedule } from '../platform/time/cron.ts'
import type { RunHandlerDependencies } from './handlers.ts'
import { auditedCommand } from './presentation.ts'
import {
  countSchedules,
  deleteSchedule,
  findSchedule,
  insertSchedule,
  isNameTaken,
  pageOfSchedules,
  type ScheduleRow,
  updateSchedule,
} from './schedule-rows.ts'

const shownTimes = 5

export interface ScheduleHandlerDependencies extends RunHandlerDependencies {
  /** Locks an app until the transaction ends. Throws `not_found`. */
  readonly holdApp: (transaction: Transaction, projectId: string, appId: string) => Promise<unknown>
}

/** The schedules of an app as its owner reads and changes them. Its lock keeps names apart, and one change from another. */
export function scheduleHandlers(dependencies: ScheduleHandlerDependencies): HandlersOf<'schedules'> {
  const { database, totals, assertApp, holdApp } = dependencies
  return {
    async 'schedules.list'({ project, params, page }) {
      await assertApp(database, project.id, params.app_id)
      const { rows, next } = await pageOfSchedules(database, params.app_id, page)
      return { body: { schedules: rows.map(scheduleView) }, next }
    },

    async 'schedules.get'({ project, params }) {
      await assertApp(database, project.id, params.app_id)
      return scheduleView(existing(await findSchedule(database, params.app_id, params.id)))
    },

    async 'schedules.create'({ transaction, project, params, body, note }) {
      const { id: project_id, accountId: account_id } = project
      await holdApp(transaction, project_id, params.app_id)
      const next_at = firstTime(body)
      await totals.assertRoom(transaction, account_id, 'schedules', () => countSchedules(transaction, account_id))
      await assertName(transaction, { app_id: params.app_id, name: body.name })
      note({ app_id: params.app_id, command: auditedCommand(body.command), schedule: body.schedule })
      const values = { ...body, command: JSON.stringify(body.command), next_at }
      const id = newId('schedule')
      return scheduleView(
        await insertSchedule(transaction, { id, app_id: params.app_id, project_id, account_id, ...values }),
      )
    },

    async 'schedules.update'({ transaction, project, params, body, note }) {
      await holdApp(transaction, project.id, params.app_id)
      const before = existing(await findSchedule(transaction, params.app_id, params.id))
      const { command, ...fields } = body
      const wanted = {
        name: fields.name ?? before.name,
        schedule: fields.schedule ?? before.schedule,
        timezone: fields.timezone ?? before.timezone,
        overlap: fields.overlap ?? before.overlap,
      }
      const next_at = firstTime(wanted)
      // A time that has come and was not taken yet still comes.
      const isSame = wanted.schedule === before.schedule && wanted.timezone === before.timezone
      await assertName(transaction, { id: before.id, app_id: before.app_id, name: wanted.name })
      note({ app_id: params.app_id, ...body, ...(command === undefined ? {} : { command: auditedCommand(command) }) })
      const words = command === undefined ? {} : { command: JSON.stringify(command) }
      const changes = { ...wanted, ...words, ...(isSame ? {} : { next_at }) }
      return scheduleView(existing(await updateSchedule(transaction, before.id, changes)))
    },

    async 'schedules.delete'({ transaction, project, params }) {
      await assertApp(transaction, project.id, params.app_id)
      if (!(await deleteSchedule(transaction, params.app_id, params.id))) throw notFound()
      return undefined
    },
  }
}

/** Returns the next time. Throws `invalid_request` when fields or time zone are malformed. */
function firstTime(times: CronTimes): Date {
  const problem = problemOfSchedule(times.schedule)
  if (problem !== undefined) throw invalidRequest({ field: 'schedule', message: problem })
  if (!isTimezone(times.timezone)) {
    throw invalidRequest({ field: 'timezone', message: 'must be the name of a time zone, such as Europe/Berlin' })
  }
  const next = nextTime(times, new Date())
  if (next === null) throw invalidRequest({ field: 'schedule', message: 'never comes' })
  return next
}

async function assertName(transaction: Transaction, schedule: Parameters<typeof isNameTaken>[1]): Promise<void> {
  if (await isNameTaken(transaction, schedule)) {
    throw invalidRequest({ field: 'name', message: 'is the name of another schedule of this app' })
  }
}

function existing(row: ScheduleRow | undefined): ScheduleRow {
  if (row === undefined) throw notFound()
  return row
}

/** Returns the next times: the stored one, which may have come and waits to be taken, and those after it. */
const timesFrom = (row: ScheduleRow): Date[] => [row.next_at, ...nextTimes(row, row.next_at, shownTimes - 1)]

const scheduleView = (row: ScheduleRow): ResponseBody<'schedules.get'> => ({
  id: row.id,
  app_id: row.app_id,
  name: row.name,
  schedule: row.schedule,
  timezone: row.timezone,
  command: row.command,
  overlap: row.overlap,
  from_file: row.from_file,
  next_at: row.next_at.toISOString(),
  next_times: timesFrom(row).map((time) => time.toISOString()),
  created_at: row.created_at.toISOString(),
})
