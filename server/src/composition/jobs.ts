import type { DeployJob } from '../deployments/deploy-job.ts'
import { deployTask, startTask } from '../deployments/queue.ts'
import { connectionBudget } from '../platform/database/connection-budget.ts'
import { startWorkers, type Task, unlockDeadJobs, type Workers } from '../platform/jobs.ts'
import type { Composition } from './composition.ts'

/** Starts the job lanes with the concurrency from the connection budget. */
export async function startJobs(
  { logger, state, stack }: Composition,
  given: {
    readonly deploy: DeployJob
    readonly databaseTasks: Readonly<Record<string, Task>>
    readonly loginTasks: Readonly<Record<string, Task>>
    readonly projectTasks: Readonly<Record<string, Task>>
  },
): Promise<Workers> {
  const { lanes } = connectionBudget.leader
  const deploy: Task = (job, signal) => given.deploy(String(job['deployment_id']), signal)
  await unlockDeadJobs(state.pool)
  const workers = await startWorkers({
    pool: state.pool,
    logger,
    signal: stack.signal,
    lanes: [
      { concurrency: lanes.deploy.concurrency, tasks: { [deployTask]: deploy } },
      { concurrency: lanes.start.concurrency, tasks: { [startTask]: deploy } },
      { concurrency: lanes.databases.concurrency, tasks: given.databaseTasks },
      { concurrency: lanes.logins.concurrency, tasks: given.loginTasks },
      { concurrency: lanes.removal.concurrency, tasks: given.projectTasks },
    ],
  })
  stack.defer('jobs', () => workers.stop())
  return workers
}
