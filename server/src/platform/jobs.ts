import { makeWorkerUtils } from 'graphile-worker'
import { type KyselyPlugin, sql } from 'kysely'
import type { Pool } from 'pg'
import { type Database, fromNow, type Transaction } from './database.ts'
import { graphileLogger, type Lane, startLane, type Task, unlockJobs, type Workers } from './jobs/lane.ts'
import type { Logger } from './logger.ts'

export type { Lane, Task, Workers }

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

/** A plugin that does nothing but carry the id of a request along with a transaction, which has no field for it. */
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
 * The time of jobs that are due at once, which keeps their order. It lies so far back that they stay due when the clock is
 * set back.
 */
const dueAtOnce = sql`now() - interval '100 years'`

/** Adds a job in the caller's transaction, so that the job exists exactly when the rows that it is about do. */
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

/** Creates the tables of the queue, or brings them up to date. Many servers may do so at once. */
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
 * Unlocks the jobs of dead workers. The caller is the one server that runs jobs, and has not begun, so every worker that
 * still locks a job is dead; the queue by itself would wait four hours for it.
 */
export async function unlockDeadJobs(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ id: string }>(
    `select distinct locked_by as id from graphile_worker._private_jobs where locked_by is not null
     union select distinct locked_by from graphile_worker._private_job_queues where locked_by is not null`,
  )
  const ids = rows.map((row) => row.id)
  if (ids.length > 0) await unlockJobs(pool, ids)
}

/** Makes jobs that wait for a later time, such as those that failed, due earlier: the clock was set back by `ms`. */
export async function bringJobsForward(db: Database | Transaction, ms: number): Promise<void> {
  await sql`update graphile_worker._private_jobs set run_at = run_at - make_interval(secs => ${ms / 1000}::float8)
    where locked_at is null and run_at > now()`.execute(db)
}

/** Counts the jobs that are waiting (due or not), that are running, and that failed their last attempt. */
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
  /** How often each lane polls for jobs that have become due, in milliseconds; 1000 unless given. */
  readonly pollMs?: number
  /** Aborts the running jobs before `stop` is called. */
  readonly signal?: AbortSignal
}

/** Starts workers for the jobs of all lanes. Workers that end because the database was unreachable are started again. */
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
