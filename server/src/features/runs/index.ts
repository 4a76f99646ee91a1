import type { ConnectRun } from '../../http/application.ts'
import type { HandlersOf } from '../../http/call.ts'
import { createMasker } from '../../logs/masking.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Announce } from '../../platform/announce.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import { createConnectRun, type RunConnections } from './connections.ts'
import { createExecutor, createRunWatch, type ExecutorDependencies, type FindValid } from './executor.ts'
import { type AssertApp, countUnfinished, forgetRuns, type Outcome, runHandlers } from './runs.ts'
import { startScheduler } from './scheduler.ts'
import {
  applyFile,
  countSchedules,
  findSchedule,
  type ScheduleHandlerDependencies,
  scheduleHandlers,
} from './schedules.ts'
import type { RunRow } from './tables.ts'

export { createRunConnections, type RunConnections } from './connections.ts'

const lostEveryMs = 10_000

export interface RunsParts {
  readonly database: Database
  readonly logger: Logger
  /** The client connections to commands, which other servers of the data directory share. */
  readonly connections: RunConnections
  readonly totals: Pick<Totals, 'of' | 'hasRoom' | 'assertRoom'>
  readonly assertApp: AssertApp
  readonly holdApp: ScheduleHandlerDependencies['holdApp']
  readonly announce: Announce
}

export interface Runs {
  readonly handlers: HandlersOf<'runs' | 'schedules'>
  readonly connect: ConnectRun
  readonly applyFile: typeof applyFile
  readonly countUnfinished: typeof countUnfinished
  readonly countSchedules: typeof countSchedules
  /** Runs the commands and schedules of apps as long as this server leads. */
  lead(leader: RunsLeaderParts): Promise<RunsWork>
}

export interface RunsLeaderParts extends Pick<LeaderParts, 'database' | 'stack'> {
  readonly findTarget: ExecutorDependencies['findTarget']
  /** Returns the valid credentials among these ids. The commands of a revoked credential end. */
  readonly findValid: FindValid
}

export interface RunsWork {
  forget(): Promise<void>
}

export function createRuns(parts: RunsParts): Runs {
  const { database, connections, totals, assertApp, holdApp } = parts
  return {
    handlers: {
      ...runHandlers({ database, totals, assertApp }),
      ...scheduleHandlers({ database, totals, assertApp, holdApp }),
    },
    connect: createConnectRun({ database, connections }),
    applyFile,
    countUnfinished,
    countSchedules,
    lead: (leader) => lead(parts, leader),
  }
}

async function lead(
  { connections, totals, announce, logger }: RunsParts,
  { database, stack, findTarget, findValid }: RunsLeaderParts,
): Promise<RunsWork> {
  const executor = createExecutor({
    database,
    watch: createRunWatch({
      database,
      findValid,
      onError: (error) => logger.warn({ err: error }, 'the running commands could not be checked'),
    }),
    findTarget,
    mostMinutes: async (accountId) => (await totals.of(database, accountId)).run_minutes,
    mask: (text, secrets) => createMasker(secrets).mask(text),
    onEnd: (transaction, run, outcome) => announceFailure(announce, transaction, run, outcome),
    stopping: stack.signal,
  })
  await executor.endLost()
  const search = startPeriodic({
    name: 'ending commands that nothing works on',
    everyMs: lostEveryMs,
    work: executor.endLost,
    logger,
  })
  stack.defer('commands that nothing works on', search.stop)
  const close = connections.open(executor)
  stack.defer('commands of apps', async () => {
    close()
    await executor.idle()
  })
  const scheduler = startScheduler({
    database,
    executor,
    hasRoom: (transaction, accountId, count) => totals.hasRoom(transaction, accountId, 'runs', count),
    logger,
  })
  stack.defer('schedules', () => scheduler.stop())
  return { forget: () => forgetRuns(database) }
}

async function announceFailure(
  announce: Announce,
  transaction: Transaction,
  run: RunRow,
  outcome: Outcome,
): Promise<void> {
  if (run.schedule_id === null || outcome.status !== 'failed') return
  const schedule = await findSchedule(transaction, run.app_id, run.schedule_id)
  if (schedule === undefined) return
  const { exit_code, signal, problem } = outcome
  const message = problem ?? (signal === null ? `It ended with the status ${exit_code}.` : `${signal} ended it.`)
  await announce(transaction, {
    accountId: run.account_id,
    projectId: run.project_id,
    event: 'schedule.failed',
    data: {
      schedule_id: schedule.id,
      run_id: run.id,
      app_id: run.app_id,
      project_id: run.project_id,
      name: schedule.name,
      exit_code,
      failure: { message },
    },
  })
}
