import type { Database, Transaction } from '../platform/database.ts'
import { enqueue } from '../platform/jobs.ts'

/** Reconciles a database with its row. */
export const reconcileTask = 'databases.reconcile'
/** Changes the roles that log in to a database, after a rotation of its password. */
export const loginsTask = 'databases.logins'
/** Removes a deleted database for good when it can no longer be restored. */
export const dropTask = 'databases.drop'
/** Reconciles a snapshot with its row. */
export const snapshotTask = 'databases.snapshot'

/** Jobs of one database, its snapshots included, run one after the other. */
export const queueOf = (databaseId: string) => `database:${databaseId}`

export function enqueueReconcile(db: Database | Transaction, databaseId: string, runAt?: Date): Promise<void> {
  const job = { task: reconcileTask, payload: { database_id: databaseId }, queue: queueOf(databaseId) }
  return enqueue(db, runAt === undefined ? job : { ...job, runAt })
}

/** Copies of a database, which may take an hour, do not delay its rotation: it has another queue. */
export function enqueueLogins(db: Database | Transaction, databaseId: string): Promise<void> {
  const queue = `logins:${databaseId}`
  return enqueue(db, { task: loginsTask, payload: { database_id: databaseId }, queue, key: queue })
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
