import type { DatabaseFailure } from '../../contract/databases.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { enqueue } from '../../platform/jobs.ts'
import { EngineError } from './postgres/engine.ts'

export const reconcileTask = 'databases.reconcile'
export const loginsTask = 'databases.logins'
export const dropTask = 'databases.drop'
export const snapshotTask = 'databases.snapshot'

/** Jobs of one database, its snapshots included, run one after the other. */
const queueOf = (databaseId: string) => `database:${databaseId}`

export function enqueueReconcile(db: Database | Transaction, databaseId: string, runAt?: Date): Promise<void> {
  const job = { task: reconcileTask, payload: { database_id: databaseId }, queue: queueOf(databaseId) }
  return enqueue(db, runAt === undefined ? job : { ...job, runAt })
}

/** Uses a separate queue, so that a copy, which may take an hour, does not delay a rotation. */
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

/** The time for which errors are retried before a database or snapshot becomes `failed`. */
const retryMs = 5 * 60_000

export function mayRetry(since: Date): boolean {
  return Date.now() - since.getTime() < retryMs
}

/** Returns the failure that clients see; the log has the error itself. */
export function failureOf(error: unknown): DatabaseFailure {
  if (error instanceof EngineError) return { code: error.code, message: error.message }
  return { code: 'server_error', message: 'The engine refused it; the operator finds the reason in the log.' }
}
