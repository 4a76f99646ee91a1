import { randomUUID } from 'node:crypto'
import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { TenantProject } from '../../http/principal.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { newEngineName } from '../credentials.ts'
import { enqueueReconcile, enqueueSnapshot } from '../job-queue.ts'
import type { DatabasesTables, SnapshotRow } from '../tables.ts'
import { checkSnapshotQuota, lockAccount, type QuotaDependencies } from './quota.ts'
import { findDatabase, lockDatabase, notAvailable } from './rows.ts'

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
  /** Starts to replace the database's content with the snapshot's content. */
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

/** Clients do not see snapshots that are being removed. */
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
