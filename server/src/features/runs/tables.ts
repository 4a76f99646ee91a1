import type { ColumnType, Generated, JSONColumnType, RawBuilder, Selectable } from 'kysely'
import type { RunStatus } from '../../contract/tasks.ts'
import type { Database, Transaction } from '../../platform/database.ts'

export interface TerminalSize {
  readonly columns: number
  readonly rows: number
}

export type RunsTables = {
  runs: {
    id: string
    app_id: string
    project_id: string
    account_id: string
    /** The release that it ran in; null before it began. */
    deployment_id: string | null
    schedule_id: string | null
    /** The schedule's time that it is for. */
    due_at: Date | null
    command: JSONColumnType<[string, ...string[]]>
    terminal: ColumnType<TerminalSize | null, string | null, never>
    status: RunStatus
    exit_code: number | null
    signal: string | null
    problem: string | null
    /** The key or the session that has begun it; null for runs of schedules. */
    begun_by: string | null
    cancel_asked_at: Date | null
    /** The end of the output; null for runs with a terminal. */
    output: string | null
    /** Null once a client has connected, and for runs of schedules. */
    ticket_hash: Buffer | null
    ticket_expires_at: ColumnType<Date | null, RawBuilder<Date> | undefined, never>
    created_at: Generated<Date>
    started_at: Date | null
    finished_at: Date | null
  }
}

export type ScheduleTables = {
  schedules: {
    id: string
    app_id: string
    project_id: string
    account_id: string
    name: string
    /** Five fields, as in crontab(5). */
    schedule: string
    timezone: string
    command: JSONColumnType<[string, ...string[]]>
    overlap: 'forbid' | 'allow' | 'replace'
    from_file: Generated<boolean>
    /** The next time without a run. */
    next_at: Date
    created_at: Generated<Date>
  }
}

export type RunRow = Selectable<RunsTables['runs']>

export type ScheduleRow = Selectable<ScheduleTables['schedules']>

export const tablesOf = (on: Database | Transaction) => on.withTables<RunsTables>()
