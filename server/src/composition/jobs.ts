import { connectionBudget } from '../platform/database/connection-budget.ts'
import { startWorkers, type Task, unlockDeadJobs, type Workers } from '../platform/jobs.ts'
import type { Composition } from './composition.ts'

/** Starts the job lanes with the concurrency from the connection budget. */
export async function startJobs(
  { logger, state, stack }: Composition,
  given: {
    readonly deployTasks: Readonly<Record<string, Task>>
    readonly startTasks: Readonly<Record<string, Task>>
    readonly databaseTasks: Readonly<Record<string, Task>>
    readonly loginTasks: Readonly<Record<string, Task>>
    readonly projectTasks: Readonly<Record<string, Task>>
  },
): Promise<Workers> {
  const { lanes } = connectionBudget.leader
  await unlockDeadJobs(state.pool)
  const workers = await startWorkers({
    pool: state.pool,
    logger,
    signal: stack.signal,
    lanes: [
      { concurrency: lanes.deploy.concurrency, tasks: given.deployTasks },
      { concurrency: lanes.start.concurrency, tasks: given.startTasks },
      { concurrency: lanes.databases.concurrency, tasks: given.databaseTasks },
      { concurrency: lanes.logins.concurrency, tasks: given.loginTasks },
      { concurrency: lanes.removal.concurrency, tasks: given.projectTasks },
    ],
  })
  stack.defer('jobs', () => workers.stop())
  return workers
}
