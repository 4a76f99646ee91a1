import { Readable } from 'node:stream'
import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { Logger } from '../../platform/logger.ts'
import { nextTime } from './cron.ts'
import { Canceled, createCapture, type Executor } from './executor.ts'
import { countUnfinished, insertDue, unfinishedOf, waitingOfSchedules } from './runs.ts'
import { bringForward, earliestTime, takeDue, timesOfAll, updateSchedule } from './schedules.ts'
import type { RunRow, ScheduleRow } from './tables.ts'

/** The longest pause between two checks, which also find schedules from other servers. */
const lookMs = 2_000
/** How long an app may take to start before its command fails. */
const patienceMs = 60_000

export interface SchedulerDependencies {
  readonly database: Database
  readonly executor: Pick<Executor, 'execute'>
  /** False when the account has as many commands as it may; `count` counts them under the lock of all counts. */
  readonly hasRoom: (transaction: Transaction, accountId: string, count: () => Promise<number>) => Promise<boolean>
  readonly logger: Pick<Logger, 'error'>
  readonly now?: () => Date
}

/**
 * Begins the commands of schedules in the leader. One transaction adds a row for the run of a due time and sets the
 * next time, so that every time has exactly one row, no matter which leader finds it. Any later leader begins a waiting
 * row.
 */
export function startScheduler(dependencies: SchedulerDependencies): { stop(): Promise<void> } {
  const { database, logger } = dependencies
  const now = dependencies.now ?? (() => new Date())
  const stopping = new AbortController()
  const underWay = new Map<string, UnderWay>()

  const begin = (run: RunRow): void => {
    const cancel = new AbortController()
    const ended = carryOut(dependencies.executor, run, AbortSignal.any([cancel.signal, stopping.signal]))
      .catch((error: unknown) => logger.error({ err: error, run: run.id }, 'a run of a schedule could not be stored'))
      .finally(() => underWay.delete(run.id))
    underWay.set(run.id, { ended, cancel: () => cancel.abort(new Canceled('A later run has taken its place.')) })
  }

  const pass = async (): Promise<void> => {
    while (!stopping.signal.aborted && (await fireOne(dependencies, now(), underWay))) {}
    for (const run of await waitingOfSchedules(database)) if (!underWay.has(run.id)) begin(run)
  }

  const work = async (): Promise<void> => {
    await correctTimes(database, now).catch((error: unknown) =>
      logger.error({ err: error }, 'the times of schedules could not be corrected'),
    )
    while (!stopping.signal.aborted) {
      const waitMs = await pass().then(
        () => untilNext(database, now()),
        (error: unknown) => {
          if (!stopping.signal.aborted) logger.error({ err: error }, 'the schedules could not be checked')
          return lookMs
        },
      )
      await sleepUntilAborted(waitMs, stopping.signal)
    }
  }

  const running = work().catch((error: unknown) => logger.error({ err: error }, 'the scheduler has stopped'))
  return {
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await running
      await Promise.all([...underWay.values()].map(({ ended }) => ended))
    },
  }
}

interface UnderWay {
  readonly ended: Promise<unknown>
  readonly cancel: () => void
}

async function fireOne(
  { database, hasRoom }: SchedulerDependencies,
  now: Date,
  underWay: ReadonlyMap<string, UnderWay>,
): Promise<boolean> {
  const replaced = await database.transaction().execute(async (transaction) => {
    const schedule = await takeDue(transaction, now)
    if (schedule === undefined) return null
    const { account_id: accountId } = schedule
    const isFull = !(await hasRoom(transaction, accountId, () => countUnfinished(transaction, accountId)))
    const before = await unfinishedOf(transaction, schedule.id)
    const reason = reasonToSkip(schedule, before.length, isFull)
    await insertDue(transaction, { id: newId('run'), schedule, problem: reason })
    // Valid fields always have a next time; without one the schedule would be tried forever.
    const next = nextTime(schedule, now) ?? new Date(8.64e15)
    await updateSchedule(transaction, schedule.id, { next_at: next })
    return schedule.overlap === 'replace' && reason === null ? before : []
  })
  for (const id of replaced ?? []) underWay.get(id)?.cancel()
  return replaced !== null
}

/** Returns why a due schedule begins no command; null when it begins one. */
export function reasonToSkip(
  { overlap }: Pick<ScheduleRow, 'overlap'>,
  unfinished: number,
  accountIsFull: boolean,
): string | null {
  if (overlap === 'forbid' && unfinished > 0) return 'The earlier run had not ended.'
  if (accountIsFull && !(overlap === 'replace' && unfinished > 0)) {
    return 'The account ran as many commands as it may at once.'
  }
  return null
}

function carryOut(executor: Pick<Executor, 'execute'>, run: RunRow, signal: AbortSignal): Promise<unknown> {
  const capture = createCapture()
  return executor.execute(run.id, {
    stdin: Readable.from([]),
    stdout: capture.open(),
    stderr: capture.open(),
    output: capture.text,
    signal,
    patienceMs,
  })
}

/**
 * Corrects times that are too late because the clock was fast when they were stored. The clock is read after the times:
 * another leader may have begun a run since, which makes a later time correct.
 */
async function correctTimes(database: Database, now: () => Date): Promise<void> {
  for (const schedule of await timesOfAll(database)) {
    const next = nextTime(schedule, now())
    if (next !== null && next < schedule.next_at) await bringForward(database, schedule, next)
  }
}

async function untilNext(database: Database, now: Date): Promise<number> {
  const next = await earliestTime(database).catch(() => null)
  return next === null ? lookMs : Math.max(10, Math.min(lookMs, next.getTime() - now.getTime()))
}
