import { Logger as GraphileLogger, makeWorkerUtils, type Runner, run, type TaskList } from 'graphile-worker'
import { sql } from 'kysely'
import type { Pool } from 'pg'
import type { Database, Transaction } from './database.ts'
import type { Logger } from './logger.ts'

export interface NewJob {
  readonly task: string
  readonly payload: Readonly<Record<string, string>>
  /** Jobs of one queue run one after the other. */
  readonly queue?: string
  readonly runAt?: Date
}

/** Called with a job's payload; a rejection is tried again with back-off. `signal` aborts when the server stops. */
export type Task = (payload: Readonly<Record<string, string>>, signal: AbortSignal) => Promise<void>

/** Tasks that share a number of places, so that slow ones do not keep quick ones waiting. */
export interface Lane {
  readonly concurrency: number
  readonly tasks: Readonly<Record<string, Task>>
}

/** Adds a job in the caller's transaction: it exists exactly when what it is about exists. */
export async function enqueue(db: Database | Transaction, job: NewJob): Promise<void> {
  await sql`select graphile_worker.add_job(
    ${job.task}::text, ${JSON.stringify(job.payload)}::json,
    queue_name => ${job.queue ?? null}::text, run_at => ${job.runAt ?? null}::timestamptz
  )`.execute(db)
}

export interface Workers {
  /** Resolves when no job runs any more. */
  stop(): Promise<void>
}

/** Makes the queue's own tables. */
export async function prepareJobs(pool: Pool, logger: Logger): Promise<void> {
  const utils = await makeWorkerUtils({ pgPool: pool, logger: graphileLogger(logger) })
  try {
    await utils.migrate()
    await freeAbandonedJobs(pool, utils.forceUnlockWorkers)
  } finally {
    await utils.release()
  }
}

/**
 * The caller holds the lock of the one server on this database, so whoever still holds a job is dead;
 * the queue itself would wait four hours before it believes that.
 */
async function freeAbandonedJobs(pool: Pool, forceUnlock: (workerIds: string[]) => Promise<void>): Promise<void> {
  const { rows } = await pool.query<{ id: string }>(
    `select distinct locked_by as id from graphile_worker._private_jobs where locked_by is not null
     union select distinct locked_by from graphile_worker._private_job_queues where locked_by is not null`,
  )
  if (rows.length > 0) await forceUnlock(rows.map((row) => row.id))
}

/** Starts to work on jobs. */
export async function startWorkers(options: { pool: Pool; logger: Logger; lanes: readonly Lane[] }): Promise<Workers> {
  const stopping = new AbortController()
  const runners: Runner[] = []
  for (const lane of options.lanes) {
    runners.push(
      await run({
        pgPool: options.pool,
        concurrency: lane.concurrency,
        taskList: taskList(lane, stopping.signal),
        logger: graphileLogger(options.logger),
        noHandleSignals: true,
        pollInterval: 1000,
      }),
    )
  }
  return {
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await Promise.all(runners.map((runner) => runner.stop()))
    },
  }
}

function taskList(lane: Lane, signal: AbortSignal): TaskList {
  const entries = Object.entries(lane.tasks).map(([name, task]) => {
    return [name, (payload: unknown) => task(payload as Readonly<Record<string, string>>, signal)] as const
  })
  return Object.fromEntries(entries)
}

function graphileLogger(logger: Logger): GraphileLogger {
  return new GraphileLogger(() => (level, message, meta) => {
    if (level === 'error') logger.error({ err: meta?.['error'] }, message)
    else if (level === 'warning') logger.warn(message)
    else logger.debug(message)
  })
}
