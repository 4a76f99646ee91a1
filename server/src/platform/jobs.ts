import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  Logger as GraphileLogger,
  type Job,
  makeWorkerUtils,
  run,
  type TaskList,
  type WorkerEvents,
} from 'graphile-worker'
import { type KyselyPlugin, sql } from 'kysely'
import type { Pool } from 'pg'
import type { Database, Transaction } from './database.ts'
import { lookAgain } from './jobs/repoll.ts'
import type { Logger } from './logger.ts'

export interface NewJob {
  readonly task: string
  readonly payload: Readonly<Record<string, string>>
  /** Jobs of one queue run one after the other. */
  readonly queue?: string
  /** A waiting job of the same key is replaced by this one. */
  readonly key?: string
  /** Jobs of a lower number go first; 0 unless told otherwise. */
  readonly priority?: number
  readonly runAt?: Date
}

/** Called with a job's payload; a rejection is tried again with back-off. `signal` aborts when the server stops. */
export type Task = (payload: Readonly<Record<string, string>>, signal: AbortSignal) => Promise<void>

/** Tasks that share a number of places, so that slow ones do not keep quick ones waiting. */
export interface Lane {
  readonly concurrency: number
  readonly tasks: Readonly<Record<string, Task>>
}

/** Rides along with a transaction, which has no place of its own for what it works for. */
interface RequestName extends KyselyPlugin {
  readonly requestId: string
}

/** The same transaction; the jobs that are added in it carry the id of the request that it works for. */
export function nameRequest(transaction: Transaction, requestId: string): Transaction {
  const name: RequestName = {
    requestId,
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => result,
  }
  return transaction.withPlugin(name)
}

function requestOf(db: Database | Transaction): string | undefined {
  return db.getExecutor().plugins.find((plugin): plugin is RequestName => 'requestId' in plugin)?.requestId
}

/** Adds a job in the caller's transaction: it exists exactly when what it is about exists. */
export async function enqueue(db: Database | Transaction, job: NewJob): Promise<void> {
  const requestId = requestOf(db)
  const payload = requestId === undefined ? job.payload : { ...job.payload, request_id: requestId }
  await sql`select graphile_worker.add_job(
    ${job.task}::text, ${JSON.stringify(payload)}::json,
    queue_name => ${job.queue ?? null}::text, run_at => ${job.runAt ?? null}::timestamptz,
    job_key => ${job.key ?? null}::text, priority => ${job.priority ?? 0}::integer
  )`.execute(db)
}

/** Which of these keys have no job that is waiting or being worked on. */
export async function keysWithoutJob(db: Database, keys: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ key: string }>`select key from graphile_worker.jobs
    where key = any(${keys}::text[]) and attempts < max_attempts`.execute(db)
  const alive = new Set(rows.map(({ key }) => key))
  return keys.filter((key) => !alive.has(key))
}

export interface Workers {
  /** Whether every lane is taking jobs. */
  isRunning(): boolean
  /** Resolves when no job runs any more. */
  stop(): Promise<void>
}

/**
 * Makes the queue's own tables, and frees the jobs of dead workers. The caller holds the lock of the one server on this
 * database, so whoever still holds a job is dead; the queue itself would wait four hours before it believes that.
 */
export async function prepareJobs(pool: Pool, logger: Logger): Promise<void> {
  const utils = await makeWorkerUtils({ pgPool: pool, logger: graphileLogger(logger) })
  try {
    await utils.migrate()
  } finally {
    await utils.release()
  }
  const { rows } = await pool.query<{ id: string }>(
    `select distinct locked_by as id from graphile_worker._private_jobs where locked_by is not null
     union select distinct locked_by from graphile_worker._private_job_queues where locked_by is not null`,
  )
  const ids = rows.map((row) => row.id)
  if (ids.length > 0) await freeJobs(pool, ids)
}

async function freeJobs(pool: Pool, workerIds: readonly string[]): Promise<void> {
  await pool.query('select graphile_worker.force_unlock_workers($1::text[])', [workerIds])
}

/** How many jobs there are: due or later, at work, and given up after their last attempt. */
export async function countJobs(pool: Pool): Promise<{ waiting: number; running: number; failed: number }> {
  const { rows } = await pool.query<{ waiting: number; running: number; failed: number }>(
    `select count(*) filter (where locked_at is null and attempts < max_attempts)::int as waiting,
            count(*) filter (where locked_at is not null)::int as running,
            count(*) filter (where locked_at is null and attempts >= max_attempts)::int as failed
     from graphile_worker._private_jobs`,
  )
  return rows[0] ?? { waiting: 0, running: 0, failed: 0 }
}

interface WorkersOptions {
  readonly pool: Pool
  readonly logger: Logger
  readonly lanes: readonly Lane[]
  /** How often idle workers look by themselves for what has become due, in milliseconds; 1000 unless given. */
  readonly pollMs?: number
}

/** Starts to work on jobs. A lane that breaks off, because the database was away, is taken up again. */
export async function startWorkers(options: WorkersOptions): Promise<Workers> {
  const stopping = new AbortController()
  const lanes = await Promise.all(options.lanes.map((lane) => startLane(lane, options, stopping.signal)))
  return {
    isRunning: () => lanes.every((lane) => lane.isRunning()),
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await Promise.all(lanes.map((lane) => lane.stop()))
    },
  }
}

const againMs = 1_000

async function startLane(
  lane: Lane,
  { pool, logger, pollMs = 1000 }: WorkersOptions,
  stopping: AbortSignal,
): Promise<Workers> {
  const events: WorkerEvents = new EventEmitter()
  let workerId: string | undefined
  events.on('pool:create', ({ workerPool }) => {
    workerId = workerPool.id
  })
  lookAgain(events, pool, Object.keys(lane.tasks))

  const begin = () =>
    run({
      pgPool: pool,
      concurrency: lane.concurrency,
      taskList: taskList(lane, stopping),
      logger: graphileLogger(logger),
      events,
      noHandleSignals: true,
      pollInterval: pollMs,
      // Unbatched, a result that cannot be written rejects where nobody listens, and ends the process.
      preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    })

  let runner = await begin()
  let running = true
  const keepGoing = async () => {
    for (;;) {
      // Either way it has ended: by the server's stop, or because it could not reach the database.
      await runner.promise.catch((error: unknown) => logger.warn({ err: error }, 'the work on jobs broke off'))
      running = false
      while (!stopping.aborted) {
        await sleep(againMs)
        try {
          if (workerId !== undefined) await freeJobs(pool, [workerId])
          runner = await begin()
          running = true
          if (stopping.aborted) await runner.stop()
          break
        } catch (error) {
          logger.warn({ err: error }, 'the work on jobs cannot be taken up yet')
        }
      }
      if (stopping.aborted) return
    }
  }
  const going = keepGoing()
  return {
    isRunning: () => running,
    async stop() {
      await runner.stop().catch((error: unknown) => logger.debug({ err: error }, 'the work on jobs had ended already'))
      await going
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
    const job = meta?.['job'] as Job | undefined
    const about = job && { task: job.task_identifier, request_id: (job.payload as { request_id?: string }).request_id }
    if (level === 'error') logger.error({ err: meta?.['error'], ...about }, message)
    else if (level === 'warning') logger.warn({ ...about }, message)
    else logger.debug({ ...about }, message)
  })
}
