import { type Insertable, sql, type Updateable } from 'kysely'
import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import { type PageRequest, readPage } from '../../http/page.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { type CronTimes, isTimezone, nextTime, nextTimes, problemOfSchedule } from './cron.ts'
import { auditedCommand, type RunHandlerDependencies } from './runs.ts'
import type { ScheduleRow, ScheduleTables } from './tables.ts'

const shownTimes = 5

export interface ScheduleHandlerDependencies extends RunHandlerDependencies {
  /** Locks an app until the transaction ends. Throws `not_found`. */
  readonly holdApp: (transaction: Transaction, projectId: string, appId: string) => Promise<unknown>
}

/** Reads and changes of an app's schedules, for its owner. The app's lock keeps names unique and serializes changes. */
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
      // A time that is due but was not taken yet stays due.
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

interface FileSchedule {
  readonly name: string
  readonly schedule: string
  readonly timezone: string
  readonly command: readonly string[]
  readonly overlap: 'forbid' | 'allow' | 'replace'
}

/**
 * Replaces an app's schedules by the schedules of the release that begins to serve it. Schedules from requests stay
 * unless the file has a schedule with the same name. Skips a schedule without a next time. A file has at most 20
 * schedules. They count in the total of the account, but that limit does not refuse them.
 */
export async function applyFile(
  transaction: Transaction,
  app: { readonly app_id: string; readonly project_id: string; readonly account_id: string },
  { cron = [] }: { readonly cron?: readonly FileSchedule[] },
): Promise<void> {
  const valid = cron.filter(
    ({ schedule, timezone }) => problemOfSchedule(schedule) === undefined && isTimezone(timezone),
  )
  const names = valid.map(({ name }) => name)
  await deleteOthersOfFile(transaction, app.app_id, names)
  for (const { command, ...times } of valid) {
    const next = nextTime(times, new Date())
    if (next === null) continue
    const values = { ...times, command: JSON.stringify(command), from_file: true }
    const before = await findByName(transaction, app.app_id, times.name)
    if (before === undefined) {
      const { app_id, project_id, account_id } = app
      const id = newId('schedule')
      await insertSchedule(transaction, { id, app_id, project_id, account_id, ...values, next_at: next })
      continue
    }
    // A time that is due but was not taken yet stays due.
    const isSame = before.schedule === times.schedule && before.timezone === times.timezone
    await updateSchedule(transaction, before.id, { ...values, next_at: isSame ? before.next_at : next })
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

/** Returns the stored time, which may already be due, and the times after it. */
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

const tablesOf = (on: Database | Transaction) => on.withTables<ScheduleTables>()

function insertSchedule(
  transaction: Transaction,
  schedule: Insertable<ScheduleTables['schedules']>,
): Promise<ScheduleRow> {
  return tablesOf(transaction).insertInto('schedules').values(schedule).returningAll().executeTakeFirstOrThrow()
}

async function isNameTaken(
  transaction: Transaction,
  schedule: { readonly app_id: string; readonly name: string; readonly id?: string },
): Promise<boolean> {
  const found = await tablesOf(transaction)
    .selectFrom('schedules')
    .select('id')
    .where('app_id', '=', schedule.app_id)
    .where('name', '=', schedule.name)
    .executeTakeFirst()
  return found !== undefined && found.id !== schedule.id
}

export async function countSchedules(on: Database | Transaction, accountId: string): Promise<number> {
  const { count } = await tablesOf(on)
    .selectFrom('schedules')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export function findSchedule(on: Database | Transaction, appId: string, id: string): Promise<ScheduleRow | undefined> {
  return tablesOf(on)
    .selectFrom('schedules')
    .selectAll()
    .where('id', '=', id)
    .where('app_id', '=', appId)
    .executeTakeFirst()
}

const pageOfSchedules = (database: Database, appId: string, page: PageRequest) =>
  readPage(tablesOf(database).selectFrom('schedules').selectAll().where('app_id', '=', appId), page, 'id')

/** Returns the changed row; `undefined` when it has been deleted since. */
export function updateSchedule(
  transaction: Transaction,
  id: string,
  changes: Updateable<ScheduleTables['schedules']>,
): Promise<ScheduleRow | undefined> {
  return tablesOf(transaction)
    .updateTable('schedules')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

async function deleteSchedule(transaction: Transaction, appId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await tablesOf(transaction)
    .deleteFrom('schedules')
    .where('id', '=', id)
    .where('app_id', '=', appId)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

function findByName(transaction: Transaction, appId: string, name: string): Promise<ScheduleRow | undefined> {
  return tablesOf(transaction)
    .selectFrom('schedules')
    .selectAll()
    .where('app_id', '=', appId)
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
}

async function deleteOthersOfFile(transaction: Transaction, appId: string, names: readonly string[]): Promise<void> {
  const ofFile = tablesOf(transaction).deleteFrom('schedules').where('app_id', '=', appId).where('from_file', '=', true)
  await (names.length === 0 ? ofFile : ofFile.where('name', 'not in', names)).execute()
}

/**
 * Locks a due schedule, and prevents the deletion of its app, which a run requires. Skips rows that another transaction
 * locks: a transaction that deletes or changes an app waits for its schedules, so waiting for the app would be a
 * deadlock.
 */
export async function takeDue(transaction: Transaction, now: Date): Promise<ScheduleRow | undefined> {
  const { rows } = await sql<ScheduleRow>`
    select schedules.* from schedules join apps on apps.id = schedules.app_id where next_at <= ${now} order by next_at limit 1
    for update of schedules skip locked for key share of apps skip locked`.execute(transaction)
  return rows[0]
}

export type ScheduleTimes = Pick<ScheduleRow, 'id' | 'schedule' | 'timezone' | 'next_at'>

export const timesOfAll = (database: Database): Promise<ScheduleTimes[]> =>
  tablesOf(database).selectFrom('schedules').select(['id', 'schedule', 'timezone', 'next_at']).execute()

export async function earliestTime(database: Database): Promise<Date | null> {
  const first = await tablesOf(database)
    .selectFrom('schedules')
    .select('next_at')
    .orderBy('next_at')
    .limit(1)
    .executeTakeFirst()
  return first?.next_at ?? null
}

/** Moves the next time of a schedule to an earlier time, unless it has changed since. */
export async function bringForward(database: Database, { id, next_at }: ScheduleTimes, next: Date): Promise<void> {
  await tablesOf(database)
    .updateTable('schedules')
    .set({ next_at: next })
    .where('id', '=', id)
    .where('next_at', '=', next_at)
    .where('next_at', '>', sql<Date>`${next}`)
    .execute()
}
