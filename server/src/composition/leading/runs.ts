import { validCredentials } from '../../accounts/authentication.ts'
import type { FindCommandTarget } from '../../deployments/command-target.ts'
import { createMasker } from '../../logs/masking.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Transaction } from '../../platform/database.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { RunConnections } from '../../runs/connections.ts'
import { createExecutor, createRunWatch } from '../../runs/executor.ts'
import { forgetRuns, type Outcome } from '../../runs/runs.ts'
import { startScheduler } from '../../runs/scheduler.ts'
import { findSchedule } from '../../runs/schedules.ts'
import type { RunRow } from '../../runs/tables.ts'
import { announce } from '../../webhooks/outbox.ts'
import type { Composition } from '../composition.ts'

/** The time between searches for commands whose end could not be stored. */
const lostEveryMs = 10_000

/** Runs the commands and schedules of apps as long as this server leads. */
export async function leadRuns(
  { state, stack, logger }: Pick<Composition, 'state' | 'stack' | 'logger'>,
  given: {
    readonly connections: RunConnections
    readonly totals: Pick<Totals, 'of' | 'hasRoom'>
    readonly findTarget: FindCommandTarget
  },
): Promise<{ readonly forget: () => Promise<void> }> {
  const { connections, totals, findTarget } = given
  const database = state.db
  const executor = createExecutor({
    database,
    watch: createRunWatch({
      database,
      findValid: (ids) => validCredentials(database, ids),
      onError: (error) => logger.warn({ err: error }, 'the commands that are under way could not be looked at'),
    }),
    findTarget,
    mostMinutes: async (accountId) => (await totals.of(database, accountId)).run_minutes,
    mask: (text, secrets) => createMasker(secrets).mask(text),
    onEnd: announceFailure,
    stopping: stack.signal,
  })
  await executor.endLost()
  const { stop } = startPeriodic({
    ...{ name: 'ending commands that nothing works on', everyMs: lostEveryMs, logger },
    work: executor.endLost,
  })
  stack.defer('commands that nothing works on', stop)
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

/** Announces the failure of a scheduled command to webhooks. */
async function announceFailure(transaction: Transaction, run: RunRow, outcome: Outcome): Promise<void> {
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
