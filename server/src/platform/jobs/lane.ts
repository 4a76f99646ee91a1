import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Logger as GraphileLogger, type Job, type Runner, run, type TaskList, type WorkerEvents } from 'graphile-worker'
import type { Pool } from 'pg'
import type { Logger } from '../logger.ts'
import { pollForJobs } from './poll.ts'

/** Runs a job. A rejection is retried with back-off. `signal` aborts when the server stops. */
export type Task = (payload: Readonly<Record<string, string>>, signal: AbortSignal) => Promise<void>

/** Tasks that share a number of workers, so that slow tasks do not delay quick ones in other lanes. */
export interface Lane {
  readonly concurrency: number
  readonly tasks: Readonly<Record<string, Task>>
}

export interface Workers {
  /** True while every lane takes jobs. */
  isRunning(): boolean
  /** Resolves when no job runs any more. */
  stop(): Promise<void>
}

export interface LaneOptions {
  readonly pool: Pool
  readonly logger: Logger
  /** How often a lane polls for jobs that have become due, in milliseconds. */
  readonly pollMs: number
}

/** How long to wait before workers that ended are started again. */
const restartMs = 1_000
/** How often each idle worker polls by itself. The lane polls for all of them, and wakes those that are needed. */
const workerPollMs = 60_000

/** Starts the workers of a lane, and starts them again whenever they end because the database was unreachable. */
export async function startLane(lane: Lane, options: LaneOptions, stopping: AbortSignal): Promise<Workers> {
  const { pool, logger, pollMs } = options
  const events: WorkerEvents = new EventEmitter()
  let workerId: string | undefined
  events.on('pool:create', ({ workerPool }) => {
    workerId = workerPool.id
  })
  pollForJobs(events, pool, Object.keys(lane.tasks), pollMs)

  let runner = await startRunner(lane, options, events, stopping)
  let running = true
  const restart = async (): Promise<void> => {
    while (!stopping.aborted) {
      await sleep(restartMs)
      try {
        if (workerId !== undefined) await unlockJobs(pool, [workerId])
        runner = await startRunner(lane, options, events, stopping)
        running = true
        if (stopping.aborted) await runner.stop()
        return
      } catch (error) {
        logger.warn({ err: error }, 'the job workers cannot be started again yet')
      }
    }
  }
  const keepRunning = async (): Promise<void> => {
    do {
      // The runner ends because the server stops, or because it could not reach the database.
      await runner.promise.catch((error: unknown) => logger.warn({ err: error }, 'the job workers ended'))
      running = false
      await restart()
    } while (!stopping.aborted)
  }
  const finished = keepRunning()
  return {
    isRunning: () => running,
    async stop() {
      await runner.stop().catch((error: unknown) => logger.debug({ err: error }, 'the job workers had ended already'))
      await finished
    },
  }
}

function startRunner(
  lane: Lane,
  { pool, logger }: LaneOptions,
  events: WorkerEvents,
  stopping: AbortSignal,
): Promise<Runner> {
  return run({
    pgPool: pool,
    concurrency: lane.concurrency,
    taskList: taskList(lane, stopping),
    logger: graphileLogger(logger),
    events,
    noHandleSignals: true,
    pollInterval: workerPollMs,
    // Without batching, a result that cannot be written causes an unhandled rejection, which ends the process.
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
  })
}

/** Makes the jobs of workers that have ended available again. */
export async function unlockJobs(pool: Pool, workerIds: readonly string[]): Promise<void> {
  await pool.query('select graphile_worker.force_unlock_workers($1::text[])', [workerIds])
}

function taskList(lane: Lane, signal: AbortSignal): TaskList {
  const entries = Object.entries(lane.tasks).map(([name, task]) => {
    return [name, (payload: unknown) => task(payload as Readonly<Record<string, string>>, signal)] as const
  })
  return Object.fromEntries(entries)
}

/** Passes the log of graphile-worker on to ours, with the task and the request of the job. */
export function graphileLogger(logger: Logger): GraphileLogger {
  return new GraphileLogger(() => (level, message, meta) => {
    const job = meta?.['job'] as Job | undefined
    const about = job && { task: job.task_identifier, request_id: (job.payload as { request_id?: string }).request_id }
    if (level === 'error') logger.error({ err: meta?.['error'], ...about }, message)
    else if (level === 'warning') logger.warn({ ...about }, message)
    else logger.debug({ ...about }, message)
  })
}
