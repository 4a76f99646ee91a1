import { type Insertable, type Selectable, sql, type Updateable } from 'kysely'
import { type PageRequest, readPage } from '../http/page.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { ScheduleTables } from './tables.ts'

export type ScheduleRow = Selectable<ScheduleTables['schedules']>

const tablesOf = (on: Database | Transaction) => on.withTables<ScheduleTables>()

export function insertSchedule(
  transaction: Transaction,
  schedule: Insertable<ScheduleTables['schedules']>,
): Promise<ScheduleRow> {
  return tablesOf(transaction).insertInto('schedules').values(schedule).returningAll().executeTakeFirstOrThrow()
}

export async function isNameTaken(
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

/** Newest first. */
export const pageOfSchedules = (database: Database, appId: string, page: PageRequest) =>
  readPage(tablesOf(database).selectFrom('schedules').selectAll().where('app_id', '=', appId), page, 'id')

/** Returns the changed row; `undefined` when it has been deleted meanwhile. */
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

export async function deleteSchedule(transaction: Transaction, appId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await tablesOf(transaction)
    .deleteFrom('schedules')
    .where('id', '=', id)
    .where('app_id', '=', appId)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

export function findByName(transaction: Transaction, appId: string, name: string): Promise<ScheduleRow | undefined> {
  return tablesOf(transaction)
    .selectFrom('schedules')
    .selectAll()
    .where('app_id', '=', appId)
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
}

/** Removes the schedules of an app that a file has made, but for these names. */
export async function deleteOthersOfFile(
  transaction: Transaction,
  appId: string,
  names: readonly string[],
): Promise<void> {
  const ofFile = tablesOf(transaction).deleteFrom('schedules').where('app_id', '=', appId).where('from_file', '=', true)
  await (names.length === 0 ? ofFile : ofFile.where('name', 'not in', names)).execute()
}

/**
 * Locks a schedule whose time has come, and keeps its app, without which it gets no run. What another transaction locks comes later:
 * one that deletes or changes an app waits for its schedules, so waiting for the app would be a deadlock.
 */
export async function takeDue(transaction: Transaction, now: Date): Promise<ScheduleRow | undefined> {
  const { rows } = await sql<ScheduleRow>`
    select schedules.* from schedules join apps on apps.id = schedules.app_id where next_at <= ${now} order by next_at limit 1
    for update of schedules skip locked for key share of apps skip locked`.execute(transaction)
  return rows[0]
}

/** The times of a schedule, without its command, which may be long. */
export type ScheduleTimes = Pick<ScheduleRow, 'id' | 'schedule' | 'timezone' | 'next_at'>

export const timesOfAll = (database: Database): Promise<ScheduleTimes[]> =>
  tablesOf(database).selectFrom('schedules').select(['id', 'schedule', 'timezone', 'next_at']).execute()

/** Returns the next time of all schedules; null when there is none. */
export async function earliestTime(database: Database): Promise<Date | null> {
  const first = await tablesOf(database)
    .selectFrom('schedules')
    .select('next_at')
    .orderBy('next_at')
    .limit(1)
    .executeTakeFirst()
  return first?.next_at ?? null
}

/** Brings the next time of a schedule forward, unless it has changed meanwhile. */
export async function bringForward(database: Database, { id, next_at }: ScheduleTimes, next: Date): Promise<void> {
  await tablesOf(database)
    .updateTable('schedules')
    .set({ next_at: next })
    .where('id', '=', id)
    .where('next_at', '=', next_at)
    .where('next_at', '>', sql<Date>`${next}`)
    .execute()
}
