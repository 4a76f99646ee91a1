import type { Database, Transaction } from '../../platform/database.ts'
import { enqueue, keysWithoutJob } from '../../platform/jobs.ts'
import type { JobReads, ProjectReads } from './reads.ts'
import type { DeploymentRow } from './tables.ts'

export const deployTask = 'deployments.deploy'
/** The job that starts a retained release. It is quick, so it has a separate lane and waits for no build. */
export const startTask = 'deployments.start'

const keyOf = (row: Pick<DeploymentRow, 'id'>): string => `deployment ${row.id}`

/**
 * Adds the job of a deployment in `building`. Builds of one app run in order. A build's priority falls with the number
 * of its account's waiting deployments, so that one account does not delay others.
 */
export async function enqueueDeployment(
  db: Database | Transaction,
  reads: Pick<ProjectReads, 'countBuilding'>,
  row: DeploymentRow,
): Promise<void> {
  const job = { payload: { deployment_id: row.id }, key: keyOf(row) }
  if (row.retained) await enqueue(db, { ...job, task: startTask })
  else {
    const priority = await reads.countBuilding(db, row.account_id)
    await enqueue(db, { ...job, task: deployTask, queue: row.app_id, priority })
  }
}

/**
 * Adds a job for every deployment that is building without a job. One transaction creates a deployment and its job, so
 * this is for jobs whose retries were used up while the database was unreachable.
 */
export async function enqueueForgotten(
  database: Database,
  rows: Pick<JobReads, 'building'>,
  reads: Pick<ProjectReads, 'countBuilding'>,
): Promise<void> {
  const building = await rows.building()
  const forgotten = new Set(await keysWithoutJob(database, building.map(keyOf)))
  for (const row of building) {
    if (forgotten.has(keyOf(row))) await enqueueDeployment(database, reads, row)
  }
}
