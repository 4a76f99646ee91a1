import { randomUUID } from 'node:crypto'
import { invalidRequest, notFound } from '../contract/errors.ts'
import type { ResponseBody } from '../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../http/page.ts'
import type { TenantProject } from '../http/principal.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { notAvailable } from './databases.ts'
import { enqueueSettle, enqueueSnapshot } from './jobs.ts'
import type { DatabaseParts } from './parts.ts'
import type { DatabaseRow, DatabasesTables, SnapshotRow } from './tables.ts'

type Snapshot = ResponseBody<'snapshots.get'>

export interface Snapshots {
  list(project: TenantProject, databaseId: string, page: PageRequest): Promise<Page<ResponseBody<'snapshots.list'>>>
  /** Throws `invalid_request` while another one is being taken, or the database is not available. */
  create(transaction: Transaction, project: TenantProject, databaseId: string): Promise<Snapshot>
  get(project: TenantProject, databaseId: string, id: string): Promise<Snapshot>
  delete(transaction: Transaction, project: TenantProject, databaseId: string, id: string): Promise<void>
  /** Begins to put the database back to the snapshot. */
  restore(transaction: Transaction, project: TenantProject, databaseId: string, id: string): Promise<void>
}

export function createSnapshots(parts: Pick<DatabaseParts, 'database'>): Snapshots {
  const tables = (db: Database | Transaction) => db.withTables<DatabasesTables>()

  const findDatabase = async (db: Database | Transaction, project: TenantProject, id: string): Promise<DatabaseRow> => {
    const row = await databaseRow(db, project, id).executeTakeFirst()
    if (row === undefined) throw notFound()
    return row
  }

  /** Until the transaction ends nobody else changes the database's row, nor begins a snapshot of it. */
  const holdDatabase = async (trx: Transaction, project: TenantProject, id: string): Promise<DatabaseRow> => {
    const row = await databaseRow(trx, project, id).forUpdate().executeTakeFirst()
    if (row === undefined) throw notFound()
    return row
  }

  const databaseRow = (db: Database | Transaction, project: TenantProject, id: string) =>
    tables(db).selectFrom('databases').selectAll().where('id', '=', id).where('project_id', '=', project.id)

  const visible = (db: Database | Transaction, databaseId: string) =>
    tables(db)
      .selectFrom('snapshots')
      .selectAll()
      .where('database_id', '=', databaseId)
      .where('status', '!=', 'deleting')

  const find = async (db: Database | Transaction, project: TenantProject, databaseId: string, id: string) => {
    await findDatabase(db, project, databaseId)
    const row = await visible(db, databaseId).where('id', '=', id).executeTakeFirst()
    if (row === undefined) throw notFound()
    return row
  }

  return {
    async list(project, databaseId, page) {
      await findDatabase(parts.database, project, databaseId)
      const { rows, next } = await readPage(visible(parts.database, databaseId), page, 'id')
      return { body: { snapshots: rows.map(shown) }, next }
    },

    async create(transaction, project, databaseId) {
      const database = await holdDatabase(transaction, project, databaseId)
      if (database.status !== 'available') throw notAvailable()
      const another = await visible(transaction, databaseId).where('status', '=', 'creating').executeTakeFirst()
      if (another !== undefined) {
        throw invalidRequest({ field: 'database_id', message: 'a snapshot of this database is being taken already' })
      }
      const row = await tables(transaction)
        .insertInto('snapshots')
        .values({ id: newId('snapshot'), database_id: databaseId, status: 'creating' })
        .returningAll()
        .executeTakeFirstOrThrow()
      await enqueueSnapshot(transaction, row.id, databaseId)
      return shown(row)
    },

    get: async (project, databaseId, id) => shown(await find(parts.database, project, databaseId, id)),

    async delete(transaction, project, databaseId, id) {
      await find(transaction, project, databaseId, id)
      await tables(transaction).updateTable('snapshots').set({ status: 'deleting' }).where('id', '=', id).execute()
      await enqueueSnapshot(transaction, id, databaseId)
    },

    async restore(transaction, project, databaseId, id) {
      await holdDatabase(transaction, project, databaseId)
      const { status } = await find(transaction, project, databaseId, id)
      if (status !== 'available') throw invalidRequest({ field: 'id', message: 'this snapshot is not available' })
      const begun = await tables(transaction)
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
      if (begun.numUpdatedRows === 0n) throw notAvailable()
      await enqueueSettle(transaction, databaseId)
    },
  }
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
