import type { WorkerEvents, WorkerPool } from 'graphile-worker'
import type { Pool } from 'pg'

/** Milliseconds between one look and the next, after a job came or ended. Then the workers' own polls go on. */
const pauses = [25, 50, 100, 200, 400]

/**
 * Makes a lane look again for a job of its own that it missed. graphile-worker's look locks every free queue for a moment
 * and skips what another look has locked. When a job comes, all lanes look at once, so the one whose job it is may miss
 * it, and would find it by its poll alone: up to a second later.
 */
export function lookAgain(events: WorkerEvents, pool: Pool, tasks: readonly string[]): void {
  let timer: NodeJS.Timeout | undefined
  let waiting: number | undefined
  const lookAfter = ([pause, ...longer]: readonly number[], workers: WorkerPool) => {
    clearTimeout(timer)
    waiting = pause
    if (pause === undefined) return
    const look = async () => {
      waiting = undefined
      try {
        // A queue is free a moment after its last job was done.
        if (await isOneFree(pool, tasks)) workers.nudge(1)
        lookAfter(longer, workers)
      } catch {
        // The workers have ended, or the database is away: those of the next pool look by themselves.
      }
    }
    timer = setTimeout(look, pause).unref()
  }
  const lookSoon = (workers: WorkerPool) => {
    // Jobs that come without pause would else put the look off for ever.
    if (waiting !== pauses[0]) lookAfter(pauses, workers)
  }
  events.on('pool:listen:notification', ({ workerPool }) => lookSoon(workerPool))
  events.on('job:complete', ({ worker }) => lookSoon(worker.workerPool))
}

/** Whether a job of these tasks waits for nothing but a worker. Locks nothing, so it hinders nobody's look. */
async function isOneFree(pool: Pool, tasks: readonly string[]): Promise<boolean> {
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
