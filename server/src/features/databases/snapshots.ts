import { randomUUID } from 'node:crypto'
import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import { newEngineName } from './credentials.ts'
import { enqueueReconcile, enqueueSnapshot, failureOf, mayRetry } from './jobs.ts'
import { type DatabaseLimits, databaseLimits } from './limits.ts'
import { type Engine, openInstanceOf } from './postgres/engine.ts'
import { checkSnapshotQuota, lockAccount, type QuotaDependencies } from './quota.ts'
import {
  type DatabaseRow,
  type DatabasesTables,
  findDatabase,
  lockDatabase,
  notAvailable,
  type SnapshotRow,
} from './rows.ts'

type Snapshot = ResponseBody<'snapshots.get'>

export interface Snapshots {
  list(project: TenantProject, databaseId: string, page: PageRequest): Promise<Page<ResponseBody<'snapshots.list'>>>
  /**
   * Throws `invalid_request` while another snapshot is being created, when the database is not available, or when the
   * account has reached its limit of snapshots.
   */
  create(transaction: Transaction, project: TenantProject, databaseId: string): Promise<Snapshot>
  get(project: TenantProject, databaseId: string, id: string): Promise<Snapshot>
  delete(transaction: Transaction, project: TenantProject, databaseId: string, id: string): Promise<void>
  /** Starts to replace the content of the database with the snapshot. */
  restore(transaction: Transaction, project: TenantProject, databaseId: string, id: string): Promise<void>
}

export function createSnapshots(dependencies: QuotaDependencies & { readonly database: Database }): Snapshots {
  const { database } = dependencies
  return {
    async list(project, databaseId, page) {
      await findDatabase(database, project, databaseId)
      const { rows, next } = await readPage(visible(database, databaseId), page, 'id')
      return { body: { snapshots: rows.map(shown) }, next }
    },

    async create(transaction, project, databaseId) {
      await lockAccount(transaction, project)
      // The lock prevents another snapshot from starting at the same time.
      const { status } = await lockDatabase(transaction, project, databaseId)
      if (status !== 'available') throw notAvailable()
      const another = await visible(transaction, databaseId).where('status', '=', 'creating').executeTakeFirst()
      if (another !== undefined) {
        throw invalidRequest({ field: 'database_id', message: 'a snapshot of this database is being taken already' })
      }
      await checkSnapshotQuota(dependencies, transaction, project)
      const row = await transaction
        .withTables<DatabasesTables>()
        .insertInto('snapshots')
        .values({ id: newId('snapshot'), copy_name: newEngineName(), database_id: databaseId, status: 'creating' })
        .returningAll()
        .executeTakeFirstOrThrow()
      await enqueueSnapshot(transaction, row.id, databaseId)
      return shown(row)
    },

    get: async (project, databaseId, id) => shown(await findSnapshot(database, project, databaseId, id)),

    async delete(transaction, project, databaseId, id) {
      await findSnapshot(transaction, project, databaseId, id)
      await transaction
        .withTables<DatabasesTables>()
        .updateTable('snapshots')
        .set({ status: 'deleting' })
        .where('id', '=', id)
        .execute()
      await enqueueSnapshot(transaction, id, databaseId)
    },

    restore: restoreSnapshot,
  }
}

const visible = (db: Database | Transaction, databaseId: string) =>
  db
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .selectAll()
    .where('database_id', '=', databaseId)
    .where('status', '!=', 'deleting')

async function findSnapshot(
  db: Database | Transaction,
  project: TenantProject,
  databaseId: string,
  id: string,
): Promise<SnapshotRow> {
  await findDatabase(db, project, databaseId)
  const row = await visible(db, databaseId).where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}

async function restoreSnapshot(
  transaction: Transaction,
  project: TenantProject,
  databaseId: string,
  id: string,
): Promise<void> {
  await lockDatabase(transaction, project, databaseId)
  // Locked, so that a deletion waits and then finds the snapshot in use.
  const snapshot = await visible(transaction, databaseId).where('id', '=', id).forUpdate().executeTakeFirst()
  if (snapshot === undefined) throw notFound()
  if (snapshot.status !== 'available') throw invalidRequest({ field: 'id', message: 'this snapshot is not available' })
  const started = await transaction
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({
      status: 'provisioning',
      source_snapshot_id: id,
      restore_id: randomUUID(),
      failure: null,
      provisioning_since: new Date(),
    })
    .where('id', '=', databaseId)
    .where('status', 'in', ['available', 'failed'])
    .where('available_at', 'is not', null)
    .executeTakeFirst()
  if (started.numUpdatedRows === 0n) throw notAvailable()
  await enqueueReconcile(transaction, databaseId)
}

function shown({ id, database_id, status, size_bytes, failure, created_at }: SnapshotRow): Snapshot {
  if (status === 'deleting') throw new Error('a snapshot that is being removed is not shown')
  return {
    id,
    database_id,
    status,
    size_bytes: size_bytes === null ? null : Number(size_bytes),
    failure,
    created_at: created_at.toISOString(),
  }
}

export interface SnapshotDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
}

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
  if (await areSnapshotsInUse(database, [snapshotId])) {
    return enqueueSnapshot(database, snapshotId, row.id, nextUseCheck())
  }
  if (await engine.exists(row.version)) {
    const instance = await openInstanceOf(engine, row, signal)
    await instance.databases.drop([copy_name], signal)
  }
  await database.withTables<DatabasesTables>().deleteFrom('snapshots').where('id', '=', snapshotId).execute()
}

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

const maxSnapshots = 5
const maxAgeDays = 30

interface RetainedSnapshot {
  readonly id: string
  readonly sizeBytes: number
  readonly createdAt: Date
}

/**
 * Returns the ids of the snapshots to remove: snapshots beyond the count, old snapshots, and the oldest snapshots while
 * all together exceed the size of the plan. The newest snapshot is always kept.
 *
 * @param snapshots newest first
 */
export function snapshotsToRemove(snapshots: readonly RetainedSnapshot[], limits: DatabaseLimits, now: Date): string[] {
  const oldest = now.getTime() - maxAgeDays * 86_400_000
  let bytes = 0
  return snapshots
    .filter(({ sizeBytes, createdAt }, index) => {
      bytes += sizeBytes
      return index > 0 && (index >= maxSnapshots || createdAt.getTime() < oldest || bytes > limits.bytes)
    })
    .map(({ id }) => id)
}

/**
 * Keeps new databases from being created from the snapshots of a database, and returns the ids of the snapshots. Waits
 * for creations that have begun.
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
export async function areSnapshotsInUse(database: Database, snapshotIds: readonly string[]): Promise<boolean> {
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

export const nextUseCheck = () => new Date(Date.now() + 2_000)
