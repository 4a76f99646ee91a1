import type { WorkerEvents, WorkerPool } from 'graphile-worker'
import type { Pool } from 'pg'

/** Milliseconds from one poll to the next, after a job was added or completed. The regular polls follow. */
const pauses = [25, 50, 100, 200, 400]
/** The most jobs that one poll counts. */
const mostCounted = 100

/**
 * Polls for the jobs of a lane, and wakes as many of its workers as there are jobs that can start now.
 *
 * Regular polls find jobs that have become due. Idle workers of graphile-worker would poll for them one by one, which costs tens of
 * queries a second.
 *
 * Further polls find jobs that the workers missed. A poll of graphile-worker locks every free queue for a moment and
 * skips rows that another poll has locked. When a job is added, all lanes poll at once, so the lane of the job may skip it.
 *
 * @param pollMs milliseconds from one regular poll to the next
 */
export function pollForJobs(events: WorkerEvents, pool: Pool, tasks: readonly string[], pollMs: number): void {
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
        // The database is unreachable. The next poll may find it back.
      }
      // Polls again soon, too: a queue becomes free a moment after its last job was completed.
      if (workers === current && scheduled === undefined) pollAfter(longer, workers)
    }
    timer = setTimeout(poll, pause).unref()
  }
  const pollSoon = (workers: WorkerPool) => {
    // A poll that is due already is not postponed, or a steady stream of jobs would postpone it for ever.
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

/** Counts the jobs of these tasks that could start now. Takes no locks, so it does not disturb the workers' polls. */
async function countAvailable(pool: Pool, tasks: readonly string[]): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int from (
       select from graphile_worker._private_jobs jobs
       join graphile_worker._private_tasks tasks on tasks.id = jobs.task_id
       left join graphile_worker._private_job_queues queues on queues.id = jobs.job_queue_id
       where tasks.identifier = any($1::text[]) and jobs.is_available and jobs.run_at <= now()
         and queues.is_available is not false
       limit $2
     ) available`,
    [tasks, mostCounted],
  )
  return rows[0]?.count ?? 0
}
