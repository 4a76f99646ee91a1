import type { WorkerEvents, WorkerPool } from 'graphile-worker'
import type { Pool } from 'pg'

/** Milliseconds from one poll to the next, after a job was added or completed. Then the workers' own polling suffices. */
const pauses = [25, 50, 100, 200, 400]

/**
 * Polls again for jobs of a lane that its workers missed. A poll of graphile-worker locks every free queue for a moment and
 * skips rows that another poll has locked. When a job is added, all lanes poll at once, so the lane of the job may skip
 * it, and would find it only by its next regular poll: up to a second later.
 */
export function repollMissedJobs(events: WorkerEvents, pool: Pool, tasks: readonly string[]): void {
  let timer: NodeJS.Timeout | undefined
  let scheduled: number | undefined
  const pollAfter = ([pause, ...longer]: readonly number[], workers: WorkerPool) => {
    clearTimeout(timer)
    scheduled = pause
    if (pause === undefined) return
    const poll = async () => {
      scheduled = undefined
      try {
        // Polls again later too: a queue becomes free a moment after its last job was completed.
        if (await isJobAvailable(pool, tasks)) workers.nudge(1)
        pollAfter(longer, workers)
      } catch {
        // The workers have ended, or the database is unreachable. The workers that replace them poll by themselves.
      }
    }
    timer = setTimeout(poll, pause).unref()
  }
  const pollSoon = (workers: WorkerPool) => {
    // A poll that is due already is not postponed, or a steady stream of jobs would postpone it for ever.
    if (scheduled !== pauses[0]) pollAfter(pauses, workers)
  }
  events.on('pool:listen:notification', ({ workerPool }) => pollSoon(workerPool))
  events.on('job:complete', ({ worker }) => pollSoon(worker.workerPool))
}

/** Returns true when a job of these tasks could start now. Takes no locks, so it does not disturb the workers' polls. */
async function isJobAvailable(pool: Pool, tasks: readonly string[]): Promise<boolean> {
  const { rows } = await pool.query(
    `select from graphile_worker._private_jobs jobs
     join graphile_worker._private_tasks tasks on tasks.id = jobs.task_id
     left join graphile_worker._private_job_queues queues on queues.id = jobs.job_queue_id
     where tasks.identifier = any($1::text[]) and jobs.is_available and jobs.run_at <= now()
       and queues.is_available is not false
     limit 1`,
    [tasks],
  )
  return rows.length > 0
}
