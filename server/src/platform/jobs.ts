import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  Logger as GraphileLogger,
  type Job,
  makeWorkerUtils,
  type Runner,
  run,
  type TaskList,
  type WorkerEvents,
  type WorkerPool,
} from 'graphile-worker'
import { type KyselyPlugin, sql } from 'kysely'
import type { Pool } from 'pg'
import { type Database, fromNow, type Transaction } from './database.ts'
import type { Logger } from './logger.ts'

export interface NewJob {
  readonly task: string
  readonly payload: Readonly<Record<string, string>>
  /** Jobs of one queue run one after the other. */
  readonly queue?: string
  /** A waiting job with the same key is replaced by this one. */
  readonly key?: string
  /** Jobs with a lower number run first; 0 unless given. */
  readonly priority?: number
  readonly runAt?: Date
}

/** Carries the id of a request with a transaction, which has no field for it. The plugin changes no query. */
interface RequestId extends KyselyPlugin {
  readonly requestId: string
}

/** Returns the same transaction; jobs that are added in it carry the id of the request. */
export function nameRequest(transaction: Transaction, requestId: string): Transaction {
  const plugin: RequestId = {
    requestId,
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => result,
  }
  return transaction.withPlugin(plugin)
}

function requestOf(db: Database | Transaction): string | undefined {
  return db.getExecutor().plugins.find((plugin): plugin is RequestId => 'requestId' in plugin)?.requestId
}

/**
 * The time of jobs that are due now. It keeps their order, and lies so far in the past that they stay due when the
 * clock is set back.
 */
const dueAtOnce = sql`now() - interval '100 years'`

/** Adds a job in the caller's transaction, so that the job exists exactly when its rows exist. */
export async function enqueue(db: Database | Transaction, job: NewJob): Promise<void> {
  const requestId = requestOf(db)
  const waitMs = job.runAt === undefined ? 0 : job.runAt.getTime() - Date.now()
  const runAt = waitMs > 0 ? fromNow(waitMs) : dueAtOnce
  const payload = requestId === undefined ? job.payload : { ...job.payload, request_id: requestId }
  await sql`select graphile_worker.add_job(
    ${job.task}::text, ${JSON.stringify(payload)}::json,
    queue_name => ${job.queue ?? null}::text, run_at => ${runAt},
    job_key => ${job.key ?? null}::text, priority => ${job.priority ?? 0}::integer
  )`.execute(db)
}

/** Returns the keys among `keys` that have no waiting or running job. */
export async function keysWithoutJob(db: Database, keys: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ key: string }>`select key from graphile_worker.jobs
    where key = any(${keys}::text[]) and attempts < max_attempts`.execute(db)
  const alive = new Set(rows.map(({ key }) => key))
  return keys.filter((key) => !alive.has(key))
}

/** The name of the lock under which one server at a time creates or changes the tables of the queue. */
const migrationLock = 'fairlead jobs'

/** Creates or migrates the tables of the queue. Many servers may do so at once. */
export async function prepareJobs(pool: Pool, logger: Logger): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [migrationLock])
    const utils = await makeWorkerUtils({ pgPool: pool, logger: graphileLogger(logger) })
    try {
      await utils.migrate()
    } finally {
      await utils.release()
    }
  } finally {
    // Ends the session, and with it the lock.
    client.release(true)
  }
}

/**
 * Unlocks the jobs of dead workers, and their queues. The caller is the only server that runs jobs, and has not started
 * any, so every worker that still locks a job is dead. Without this call, the queue would wait four hours for each job.
 */
export async function unlockDeadJobs(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ id: string }>(
    'select distinct locked_by as id from graphile_worker.jobs where locked_by is not null',
  )
  const ids = rows.map((row) => row.id)
  if (ids.length > 0) await unlockJobs(pool, ids)
}

/** Makes jobs that wait for a later time, such as retries, due earlier: the clock was set back by `ms`. */
export async function bringJobsForward(db: Database | Transaction, ms: number): Promise<void> {
  await sql`select from graphile_worker.jobs waiting, graphile_worker.reschedule_jobs(
      array[waiting.id], run_at => waiting.run_at - make_interval(secs => ${ms / 1000}::float8))
    where waiting.locked_at is null and waiting.run_at > now()`.execute(db)
}

/** Counts the jobs that are waiting (due or not), that are running, and that failed their last attempt. */
export async function countJobs(pool: Pool): Promise<{ waiting: number; running: number; failed: number }> {
  const { rows } = await pool.query<{ waiting: number; running: number; failed: number }>(
    `select count(*) filter (where locked_at is null and attempts < max_attempts)::int as waiting,
            count(*) filter (where locked_at is not null)::int as running,
            count(*) filter (where locked_at is null and attempts >= max_attempts)::int as failed
     from graphile_worker.jobs`,
  )
  return rows[0] ?? { waiting: 0, running: 0, failed: 0 }
}

interface WorkersOptions {
  readonly pool: Pool
  readonly logger: Logger
  readonly lanes: readonly Lane[]
  /** How often each lane polls for jobs that have become due, in milliseconds; 1000 unless given. */
  readonly pollMs?: number
  /** Aborts the running jobs before `stop` is called. */
  readonly signal?: AbortSignal
}

/**
 * Starts workers for the jobs of all lanes. Workers that end because the database was unreachable are started again.
 */
export async function startWorkers({ pool, logger, lanes, pollMs = 1000, signal }: WorkersOptions): Promise<Workers> {
  const stopping = new AbortController()
  const options = { pool, logger, pollMs }
  const ending = signal === undefined ? stopping.signal : AbortSignal.any([signal, stopping.signal])
  const started = await Promise.all(lanes.map((lane) => startLane(lane, options, ending)))
  return {
    isRunning: () => started.every((lane) => lane.isRunning()),
    async stop() {
      stopping.abort(new Error('the server is stopping'))
      await Promise.all(started.map((lane) => lane.stop()))
    },
  }
}

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
/** The interval at which each idle worker polls. The lane polls for all workers, and wakes as many as it needs. */
const workerPollMs = 60_000

/** Starts the workers of a lane, and starts them again whenever they end because the database was unreachable. */
async function startLane(lane: Lane, options: LaneOptions, stopping: AbortSignal): Promise<Workers> {
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

async function unlockJobs(pool: Pool, workerIds: readonly string[]): Promise<void> {
  await pool.query('select graphile_worker.force_unlock_workers($1::text[])', [workerIds])
}

function taskList(lane: Lane, signal: AbortSignal): TaskList {
  const entries = Object.entries(lane.tasks).map(([name, task]) => {
    return [name, (payload: unknown) => task(payload as Readonly<Record<string, string>>, signal)] as const
  })
  return Object.fromEntries(entries)
}

/** Passes the log of graphile-worker on to ours, with the task and the request of the job. */
function graphileLogger(logger: Logger): GraphileLogger {
  return new GraphileLogger(() => (level, message, meta) => {
    const job = meta?.['job'] as Job | undefined
    const about = job && { task: job.task_identifier, request_id: (job.payload as { request_id?: string }).request_id }
    if (level === 'error') logger.error({ err: meta?.['error'], ...about }, message)
    else if (level === 'warning') logger.warn({ ...about }, message)
    else logger.debug({ ...about }, message)
  })
}

/** Milliseconds from one poll to the next, after a job was added or completed. The regular polls follow. */
const pauses = [25, 50, 100, 200, 400]
const mostCounted = 100

/**
 * Polls for the jobs of a lane, and wakes as many of its workers as there are jobs that can start now.
 *
 * Regular polls find jobs that have become due. Idle workers of graphile-worker would poll for them one by one, which
 * costs tens of queries a second.
 *
 * Further polls find jobs that the workers missed. A poll of graphile-worker locks every free queue for a moment and
 * skips rows that another poll has locked. When a job is added, all lanes poll at once, so the lane of the job may skip
 * it.
 *
 * @param pollMs milliseconds from one regular poll to the next
 */
function pollForJobs(events: WorkerEvents, pool: Pool, tasks: readonly string[], pollMs: number): void {
  let timer: NodeJS.Timeout | undefined
  let scheduled: number | undefined
  let current: WorkerPool | undefined
  const pollAfter = ([pause = pollMs, ...longer]: readonly number[], workers: WorkerPool) => {
    clearTimeout(timer)
    scheduled = pause
    const poll = async () => {
      scheduled = undefined
      try {
        const available = await countAvailable(pool, tasks)
        if (available > 0 && workers === current) workers.nudge(available)
      } catch {
        // The database is unreachable. The next poll may reach it again.
      }
      // Polls again soon, because a queue becomes free a moment after its last job completes.
      if (workers === current && scheduled === undefined) pollAfter(longer, workers)
    }
    timer = setTimeout(poll, pause).unref()
  }
  const pollSoon = (workers: WorkerPool) => {
    // A poll that is due already is not postponed, because a steady stream of jobs would postpone it forever.
    if (workers === current && scheduled !== pauses[0]) pollAfter(pauses, workers)
  }
  const end = ({ workerPool }: { workerPool: WorkerPool }) => {
    if (workerPool !== current) return
    clearTimeout(timer)
    current = undefined
  }
  events.on('pool:create', ({ workerPool }) => {
    current = workerPool
    pollAfter([], workerPool)
  })
  events.on('pool:listen:notification', ({ workerPool }) => pollSoon(workerPool))
  events.on('job:complete', ({ worker }) => pollSoon(worker.workerPool))
  events.on('pool:gracefulShutdown', end)
  events.on('pool:forcefulShutdown', end)
  events.on('pool:release', end)
}

/**
 * Counts the jobs of these tasks that could start now. A worker locks and unlocks a job together with its queue, so a
 * locked queue has a locked job. Takes no locks, so it does not disturb the workers' polls.
 */
async function countAvailable(pool: Pool, tasks: readonly string[]): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int from (
       select from graphile_worker.jobs
       where task_identifier = any($1::text[]) and locked_at is null and attempts < max_attempts and run_at <= now()
         and (queue_name = any (
           array(select queue_name from graphile_worker.jobs where locked_at is not null)
         )) is not true
       limit $2
     ) available`,
    [tasks, mostCounted],
  )
  return rows[0]?.count ?? 0
}
