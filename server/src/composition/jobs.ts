import type { DeployJob } from '../deployments/deploy-job.ts'
import { deployTask, startTask } from '../deployments/queue.ts'
import { connectionBudget } from '../platform/database/connection-budget.ts'
import { startWorkers, type Task, unlockDeadJobs, type Workers } from '../platform/jobs.ts'
import { removeProject, removeProjectTask } from '../projects/projects.ts'
import type { Composition } from './composition.ts'

/** Starts the job lanes with the concurrency from the connection budget. */
export async function startJobs(
  { logger, state, stack }: Composition,
  given: {
    readonly deploy: DeployJob
    readonly databaseTasks: Readonly<Record<string, Task>>
    readonly loginTasks: Readonly<Record<string, Task>>
    /** Each function removes the data of a project in one feature. They run in this order. */
    readonly removers: readonly ((projectId: string, signal: AbortSignal) => Promise<void>)[]
  },
): Promise<Workers> {
  const { lanes } = connectionBudget.leader
  const deploy: Task = (job, signal) => given.deploy(String(job['deployment_id']), signal)
  const remove: Task = (job, signal) => {
    const removers = given.removers.map((remover) => (id: string) => remover(id, signal))
    return removeProject({ database: state.db, removers }, String(job['project_id']))
  }
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
      { concurrency: lanes.removal.concurrency, tasks: { [removeProjectTask]: remove } },
    ],
  })
  stack.defer('jobs', () => workers.stop())
  return workers
}
