import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import { enqueueSnapshot } from '../job-queue.ts'
import { databaseLimits } from '../plan-limits.ts'
import { snapshotsToRemove } from '../snapshot-retention.ts'
import type { DatabaseRow, DatabasesTables, SnapshotRow } from '../tables.ts'
import { failureOf, mayRetry } from './failure.ts'

export interface SnapshotDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
}

/** Creates or removes a snapshot, as its row says. */
export async function reconcileSnapshot(
  dependencies: SnapshotDependencies,
  snapshotId: string,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const snapshot = await dependencies.database
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .selectAll()
    .where('id', '=', snapshotId)
    .executeTakeFirst()
  if (snapshot?.status === 'creating') await takeSnapshotOrFail(dependencies, snapshot, row, signal)
  if (snapshot?.status === 'deleting') await removeSnapshot(dependencies, snapshot, row, signal)
}

async function takeSnapshotOrFail(
  dependencies: SnapshotDependencies,
  snapshot: SnapshotRow,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const { database, logger } = dependencies
  try {
    if (row.status !== 'available') throw new Error(`the database is ${row.status}`)
    await takeSnapshot(dependencies, snapshot, row, signal)
  } catch (error) {
    if (signal.aborted || (row.status === 'available' && mayRetry(snapshot.creating_since))) throw error
    logger.error({ err: error, snapshot: snapshot.id }, 'snapshot failed')
    await database
      .withTables<DatabasesTables>()
      .updateTable('snapshots')
      .set({ status: 'failed', failure: JSON.stringify(failureOf(error)) })
      .where('id', '=', snapshot.id)
      .where('status', '=', 'creating')
      .execute()
  }
}

async function takeSnapshot(
  { database, engine, plans, logger }: SnapshotDependencies,
  { id: snapshotId, copy_name }: SnapshotRow,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const instance = await openInstanceOf(engine, row, signal)
  const begin = performance.now()
  await instance.databases.copy(row.role_name, copy_name, signal)
  const size = (await instance.statistics.sizes([copy_name])).get(copy_name) ?? 0
  // Prunes in the same transaction, so that the number of snapshots never exceeds the limit.
  await database.transaction().execute(async (transaction) => {
    await transaction
      .withTables<DatabasesTables>()
      .updateTable('snapshots')
      .set({ status: 'available', size_bytes: String(size) })
      .where('id', '=', snapshotId)
      .where('status', '=', 'creating')
      .execute()
    await pruneSnapshots(transaction, plans, row)
  })
  logger.info({ snapshot: snapshotId, ms: Math.round(performance.now() - begin) }, 'snapshot was taken')
}

async function removeSnapshot(
  { database, engine }: Pick<SnapshotDependencies, 'database' | 'engine'>,
  { id: snapshotId, copy_name }: SnapshotRow,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  if (await areInUse(database, [snapshotId])) {
    return enqueueSnapshot(database, snapshotId, row.id, nextUseCheck())
  }
  if (await engine.exists(row.version)) {
    const instance = await openInstanceOf(engine, row, signal)
    await instance.databases.drop([copy_name], signal)
  }
  await database.withTables<DatabasesTables>().deleteFrom('snapshots').where('id', '=', snapshotId).execute()
}

/** Removes the snapshots of a database beyond the limits on count, age and size. */
export async function pruneSnapshots(
  transaction: Transaction,
  plans: Plans,
  { id: databaseId, plan }: Pick<DatabaseRow, 'id' | 'plan'>,
): Promise<void> {
  const trx = transaction.withTables<DatabasesTables>()
  const rows = await trx
    .selectFrom('snapshots')
    .selectAll()
    .where('database_id', '=', databaseId)
    .where('status', '=', 'available')
    .orderBy('id', 'desc')
    .execute()
  const retained = rows.map(({ id, size_bytes, created_at }) => ({
    id,
    sizeBytes: Number(size_bytes),
    createdAt: created_at,
  }))
  for (const id of snapshotsToRemove(retained, databaseLimits(planNamed(plans, plan)), new Date())) {
    await trx.updateTable('snapshots').set({ status: 'deleting' }).where('id', '=', id).execute()
    await enqueueSnapshot(transaction, id, databaseId)
  }
}

/**
 * Keeps new databases from being created from the snapshots of a database, and returns the snapshots' ids. Waits for
 * creations that have begun.
 */
export async function closeSnapshots(database: Database, databaseId: string): Promise<string[]> {
  const rows = await database
    .withTables<DatabasesTables>()
    .updateTable('snapshots')
    .set({ status: 'deleting' })
    .where('database_id', '=', databaseId)
    .returning('id')
    .execute()
  return rows.map(({ id }) => id)
}

/** True while a database is being created or restored from one of these snapshots; until then they must be kept. */
export async function areInUse(database: Database, snapshotIds: readonly string[]): Promise<boolean> {
  if (snapshotIds.length === 0) return false
  const user = await database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .select('id')
    .where('source_snapshot_id', 'in', snapshotIds)
    .where('status', '=', 'provisioning')
    .executeTakeFirst()
  return user !== undefined
}

/** Returns when to check again if a snapshot is still in use. */
export const nextUseCheck = () => new Date(Date.now() + 2_000)
