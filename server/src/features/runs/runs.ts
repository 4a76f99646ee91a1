import { createHash, randomBytes } from 'node:crypto'
import { type Insertable, sql } from 'kysely'
import { notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import { connectPath } from '../../contract/run-protocol.ts'
import type { HandlersOf } from '../../http/call.ts'
import { type PageRequest, readPage } from '../../http/page.ts'
import { isAuthorized } from '../../http/principal.ts'
import type { Totals } from '../../platform/account-limits.ts'
import { type Database, fromNow, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { Held } from '../../platform/marks.ts'
import { type RunRow, type RunsTables, type ScheduleRow, tablesOf } from './tables.ts'

/** The time in which a client must connect to its new run. */
const ticketLifeMs = 60_000

/** Throws `not_found` unless the project has the app. A transaction prevents the app's deletion until its end. */
export type AssertApp = (on: Database | Transaction, projectId: string, appId: string) => Promise<void>

export interface RunHandlerDependencies {
  readonly database: Database
  readonly totals: Pick<Totals, 'assertRoom'>
  readonly assertApp: AssertApp
}

export function runHandlers({ database, totals, assertApp }: RunHandlerDependencies): HandlersOf<'runs'> {
  return {
    async 'runs.list'({ project, params, query, page }) {
      await assertApp(database, project.id, params.app_id)
      const { rows, next } = await pageOfRuns(database, params.app_id, query.schedule_id, page)
      return { body: { runs: rows.map(runView) }, next }
    },

    async 'runs.get'({ principal, project, params }) {
      await assertApp(database, project.id, params.app_id)
      const row = await findRun(database, params.app_id, params.id)
      if (row === undefined) throw notFound()
      const isOneOff = row.schedule_id === null && row.due_at === null
      // A command has access to the app's data: a key that may not run commands must not see their output either.
      const mayRead = !isOneOff || isAuthorized(principal, { access: 'runs:write' }, project.id)
      return { ...runView(row), output: mayRead ? row.output : null }
    },

    async 'runs.cancel'({ transaction, project, params }) {
      await assertApp(transaction, project.id, params.app_id)
      const row = await cancelRun(transaction, params.app_id, params.id)
      if (row === undefined) throw notFound()
      return runView(row)
    },

    async 'runs.create'({ transaction, principal, project, params, body, note }) {
      await assertApp(transaction, project.id, params.app_id)
      await totals.assertRoom(transaction, project.accountId, 'runs', () =>
        countUnfinished(transaction, project.accountId),
      )
      note({ app_id: params.app_id, command: auditedCommand(body.command) })
      const ticket = randomBytes(32).toString('base64url')
      const row = await insertRun(transaction, {
        id: newId('run'),
        app_id: params.app_id,
        project_id: project.id,
        account_id: project.accountId,
        command: JSON.stringify(body.command),
        terminal: body.terminal ? JSON.stringify(body.terminal) : null,
        status: 'waiting',
        begun_by: principal.credentialId,
        ticket_hash: hashTicket(ticket),
        ticket_expires_at: fromNow(ticketLifeMs),
      })
      const expires_at = (row.ticket_expires_at ?? row.created_at).toISOString()
      return { ...runView(row), connect: { path: connectPath, ticket, expires_at } }
    },
  }
}

export const hashTicket = (ticket: string): Buffer => createHash('sha256').update(ticket).digest()

function runView(row: RunRow): ResponseBody<'runs.list'>['runs'][number] {
  return {
    id: row.id,
    app_id: row.app_id,
    deployment_id: row.deployment_id,
    schedule_id: row.schedule_id,
    due_at: row.due_at?.toISOString() ?? null,
    command: row.command,
    terminal: row.terminal !== null,
    status: row.status,
    exit_code: row.exit_code,
    signal: row.signal,
    problem: row.problem,
    created_at: row.created_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    finished_at: row.finished_at?.toISOString() ?? null,
  }
}

/** How many characters of a command an entry of the audit log keeps: there are far more entries than runs. */
const mostAudited = 2_000

export function auditedCommand(command: readonly string[]): string[] {
  const kept: string[] = []
  let left = mostAudited
  for (const word of command) {
    if (word.length > left) return [...kept, `${word.slice(0, left).toWellFormed()}…`]
    kept.push(word)
    left -= word.length
  }
  return kept
}

export interface Outcome {
  readonly status: 'succeeded' | 'failed' | 'canceled'
  readonly exit_code: number | null
  readonly signal: string | null
  readonly problem: string | null
  readonly output?: string
}

function insertRun(transaction: Transaction, run: Insertable<RunsTables['runs']>): Promise<RunRow> {
  return tablesOf(transaction).insertInto('runs').values(run).returningAll().executeTakeFirstOrThrow()
}

/** Counts the account's runs that are running, or whose clients may still connect. */
export async function countUnfinished(on: Database | Transaction, accountId: string): Promise<number> {
  const { count } = await tablesOf(on)
    .selectFrom('runs')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('account_id', '=', accountId)
    .where(({ eb, and, or }) =>
      or([
        eb('status', '=', 'running'),
        and([
          eb('status', '=', 'waiting'),
          or([eb('ticket_expires_at', 'is', null), eb('ticket_expires_at', '>', sql<Date>`now()`)]),
        ]),
      ]),
    )
    .executeTakeFirstOrThrow()
  return Number(count)
}

function findRun(database: Database, appId: string, id: string): Promise<RunRow | undefined> {
  return tablesOf(database)
    .selectFrom('runs')
    .selectAll()
    .where('id', '=', id)
    .where('app_id', '=', appId)
    .executeTakeFirst()
}

function pageOfRuns(database: Database, appId: string, scheduleId: string | undefined, page: PageRequest) {
  const all = tablesOf(database).selectFrom('runs').selectAll().where('app_id', '=', appId)
  return readPage(scheduleId === undefined ? all : all.where('schedule_id', '=', scheduleId), page, 'id')
}

/** Redeems the ticket of a waiting run, which no other client can use then; `undefined` when no run has this ticket. */
export async function redeemTicket(database: Database, hash: Buffer): Promise<string | undefined> {
  const redeemed = await tablesOf(database)
    .updateTable('runs')
    .set({ ticket_hash: null })
    .where('ticket_hash', '=', hash)
    .where('status', '=', 'waiting')
    .where('ticket_expires_at', '>', sql<Date>`now()`)
    .returning('id')
    .executeTakeFirst()
  return redeemed?.id
}

/** Begins a waiting run; `undefined` when it no longer waits. */
export function beginRun(database: Database, { id }: Held): Promise<RunRow | undefined> {
  return tablesOf(database)
    .updateTable('runs')
    .set({ status: 'running', started_at: sql<Date>`now()`, ticket_hash: null })
    .where('id', '=', id)
    .where('status', '=', 'waiting')
    .returningAll()
    .executeTakeFirst()
}

export async function noteRelease(database: Database, id: string, deploymentId: string): Promise<void> {
  await tablesOf(database).updateTable('runs').set({ deployment_id: deploymentId }).where('id', '=', id).execute()
}

/** Ends a run; false when it has already ended. */
export async function endRun(on: Database | Transaction, id: string, outcome: Outcome): Promise<boolean> {
  const { numUpdatedRows } = await tablesOf(on)
    .updateTable('runs')
    .set({ ...outcome, finished_at: sql<Date>`now()`, ticket_hash: null })
    .where('id', '=', id)
    .where('status', 'in', ['waiting', 'running'])
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Cancels a waiting run, or marks a running one to end. Resolves to the changed row. */
async function cancelRun(transaction: Transaction, appId: string, id: string): Promise<RunRow | undefined> {
  const own = tablesOf(transaction).updateTable('runs').where('id', '=', id).where('app_id', '=', appId)
  const end = {
    status: 'canceled',
    problem: canceledProblem,
    finished_at: sql<Date>`now()`,
    ticket_hash: null,
  } as const
  await own.set(end).where('status', '=', 'waiting').execute()
  await own.set({ cancel_asked_at: sql<Date>`now()` }).where('status', '=', 'running').execute()
  return tablesOf(transaction)
    .selectFrom('runs')
    .selectAll()
    .where('id', '=', id)
    .where('app_id', '=', appId)
    .executeTakeFirst()
}

export const canceledProblem = 'It was canceled.'

/** Returns the given runs that their owners have canceled, and runs that are gone. */
export async function canceledOf(database: Database, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const continuing = await tablesOf(database)
    .selectFrom('runs')
    .select('id')
    .where('id', '=', sql<string>`any(${[...ids]}::text[])`)
    .where('cancel_asked_at', 'is', null)
    .execute()
  const idsOfContinuing = new Set(continuing.map(({ id }) => id))
  return new Set(ids.filter((id) => !idsOfContinuing.has(id)))
}

/** Adds the run of a schedule for its time, once; with a `problem`, as a skipped run. */
export async function insertDue(
  transaction: Transaction,
  { id, schedule, problem }: { readonly id: string; readonly schedule: ScheduleRow; readonly problem: string | null },
): Promise<void> {
  await tablesOf(transaction)
    .insertInto('runs')
    .values({
      id,
      app_id: schedule.app_id,
      project_id: schedule.project_id,
      account_id: schedule.account_id,
      schedule_id: schedule.id,
      due_at: schedule.next_at,
      command: JSON.stringify(schedule.command),
      status: problem === null ? 'waiting' : 'skipped',
      problem,
      ...(problem === null ? {} : { finished_at: sql<Date>`now()` }),
    })
    .onConflict((conflict) => conflict.columns(['schedule_id', 'due_at']).doNothing())
    .execute()
}

export async function unfinishedOf(on: Database | Transaction, scheduleId: string): Promise<string[]> {
  const found = await tablesOf(on)
    .selectFrom('runs')
    .select('id')
    .where('schedule_id', '=', scheduleId)
    .where('status', 'in', ['waiting', 'running'])
    .execute()
  return found.map(({ id }) => id)
}

/** Returns the runs of schedules that no leader has begun. */
export function waitingOfSchedules(database: Database): Promise<RunRow[]> {
  return tablesOf(database)
    .selectFrom('runs')
    .selectAll()
    .where('status', '=', 'waiting')
    .where('schedule_id', 'is not', null)
    .orderBy('id')
    .execute()
}

export function runningRuns(database: Database): Promise<RunRow[]> {
  return tablesOf(database).selectFrom('runs').selectAll().where('status', '=', 'running').execute()
}

/** How many runs are kept of each app, and of each of its schedules. */
const kept = 200

/**
 * Ends runs whose clients did not connect, and removes all but the newest runs of each schedule and of each app. Runs
 * of deleted schedules count as one-off runs: otherwise the runs of every deleted schedule would stay.
 */
export async function forgetRuns(database: Database): Promise<void> {
  await tablesOf(database)
    .updateTable('runs')
    .set({ status: 'canceled', problem: 'No client has connected.', finished_at: sql<Date>`now()`, ticket_hash: null })
    .where('status', '=', 'waiting')
    .where('ticket_expires_at', '<', sql<Date>`now() - interval '1 minute'`)
    .execute()
  await sql`delete from runs using (
      select runs.id, row_number() over (partition by runs.app_id, schedules.id order by runs.id desc) as place
      from runs left join schedules on schedules.id = runs.schedule_id
    ) as placed
    where runs.id = placed.id and placed.place > ${kept} and runs.status not in ('waiting', 'running')`.execute(
    database,
  )
}
