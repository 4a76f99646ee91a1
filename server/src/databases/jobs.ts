import type { Database, Transaction } from '../platform/database.ts'
import { enqueue } from '../platform/jobs.ts'

/** Brings a database into the state that its row asks for. */
export const settleTask = 'databases.settle'
/** Removes a deleted database when its time is over. */
export const dropTask = 'databases.drop'
/** Brings a snapshot into the state that its row asks for. */
export const snapshotTask = 'databases.snapshot'

/** What concerns one database happens one after the other. */
const queueOf = (databaseId: string) => `database:${databaseId}`

export function enqueueSettle(db: Database | Transaction, databaseId: string, runAt?: Date): Promise<void> {
  const job = { task: settleTask, payload: { database_id: databaseId }, queue: queueOf(databaseId) }
  return enqueue(db, runAt === undefined ? job : { ...job, runAt })
}

export function enqueueDrop(db: Database | Transaction, databaseId: string, runAt: Date): Promise<void> {
  return enqueue(db, { task: dropTask, payload: { database_id: databaseId }, queue: queueOf(databaseId), runAt })
}

export function enqueueSnapshot(
  db: Database | Transaction,
  snapshotId: string,
  databaseId: string,
  runAt?: Date,
): Promise<void> {
  const job = { task: snapshotTask, payload: { snapshot_id: snapshotId }, queue: queueOf(databaseId) }
  return enqueue(db, runAt === undefined ? job : { ...job, runAt })
}
