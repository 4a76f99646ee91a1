import type { Database, Transaction } from '../../platform/database.ts'
import { enqueue, keysWithoutJob } from '../../platform/jobs.ts'
import type { DeploymentRow, DeploymentStore } from './store.ts'

/** The job that fetches, builds and starts a deployment. */
export const deployTask = 'deployments.deploy'
/** The job that starts a release which is on the disk: quick, so that it waits for no build. */
export const startTask = 'deployments.start'

const keyOf = (row: Pick<DeploymentRow, 'id'>): string => `deployment ${row.id}`

/**
 * Adds the job of a deployment in `building`. Builds of one app run in their order; and of an account that has many
 * waiting, each waits behind as many of others' as its place among them, so that no account keeps others waiting.
 */
export async function enqueueWork(
  db: Database | Transaction,
  store: Pick<DeploymentStore, 'countBuilding'>,
  row: DeploymentRow,
): Promise<void> {
  const job = { payload: { deployment_id: row.id }, key: keyOf(row) }
  if (row.retained) await enqueue(db, { ...job, task: startTask })
  else {
    const priority = await store.countBuilding(db, row.account_id)
    await enqueue(db, { ...job, task: deployTask, queue: row.app_id, priority })
  }
}

/**
 * Gives a job to every deployment that is building without one. A deployment and its job are made in one transaction,
 * so this is for jobs that were given up after failing again and again, because the database was away.
 */
export async function enqueueForgotten(parts: {
  readonly database: Database
  readonly store: DeploymentStore
}): Promise<void> {
  const building = await parts.store.building()
  const forgotten = new Set(await keysWithoutJob(parts.database, building.map(keyOf)))
  for (const row of building) {
    if (forgotten.has(keyOf(row))) await enqueueWork(parts.database, parts.store, row)
  }
}
