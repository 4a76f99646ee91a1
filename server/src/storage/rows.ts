import { type ColumnType, type Generated, type Insertable, sql } from 'kysely'
import type { Transaction } from '../platform/database.ts'
import { tooLarge } from './reservations.ts'

/** The columns that are read of a file. */
export const fileFields = [
  'id',
  'name',
  'size',
  'declared_type',
  'detected_type',
  'sha256',
  'token',
  'uploaded_at',
] as const

/**
 * Inserts a file's row and adds its size to the project's usage. Uploads that end at the same time wait for each other
 * here, by the lock on the row in `storage_usage`.
 * Throws `invalid_request` when the files of the project would take more than `quotaBytes`.
 */
export async function insertFile(
  transaction: Transaction,
  file: Insertable<StorageTables['files']>,
  quotaBytes: number,
): Promise<{ uploaded_at: Date }> {
  const trx = transaction.withTables<StorageTables>()
  const { bytes } = await trx
    .insertInto('storage_usage')
    .values({ project_id: file.project_id, bytes: file.size })
    .onConflict((conflict) =>
      conflict.column('project_id').doUpdateSet({ bytes: sql<number>`storage_usage.bytes + excluded.bytes` }),
    )
    .returning('bytes')
    .executeTakeFirstOrThrow()
  if (Number(bytes) > quotaBytes) throw tooLarge(quotaBytes - (Number(bytes) - file.size))
  return trx.insertInto('files').values(file).returning('uploaded_at').executeTakeFirstOrThrow()
}

/** Deletes a file's row and subtracts its size from the project's usage. Resolves to false when there is no such file. */
export async function deleteRow(transaction: Transaction, projectId: string, id: string): Promise<boolean> {
  const trx = transaction.withTables<StorageTables>()
  // Locked first, as an upload does: two transactions that lock in a different order could wait for each other.
  await trx
    .selectFrom('storage_usage')
    .select('bytes')
    .where('project_id', '=', projectId)
    .forUpdate()
    .executeTakeFirst()
  const row = await trx
    .deleteFrom('files')
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .returning('size')
    .executeTakeFirst()
  if (row === undefined) return false
  const size = Number(row.size)
  await trx
    .updateTable('storage_usage')
    .set({ bytes: sql<number>`bytes - ${size}` })
    .where('project_id', '=', projectId)
    .execute()
  return true
}

/** PostgreSQL's bigint arrives as text. */
type Bytes = ColumnType<string, number, number>

/** The tables of this feature. */
export type StorageTables = {
  files: {
    id: string
    project_id: string
    name: string
    size: Bytes
    /** The media type that the upload named; `null` when that was not well-formed. */
    declared_type: string | null
    /** The media type that the first bytes suggest; `null` when they suggest none. */
    detected_type: string | null
    sha256: Buffer
    /** The secret of the download address, encrypted. */
    token: Buffer
    uploaded_at: Generated<Date>
  }
  storage_usage: {
    project_id: string
    bytes: Bytes
  }
  /** Never has a row for a file that has one in `files`. */
  pending_files: {
    file_id: string
    /** The start of the server whose upload or deletion it is, or that has taken over. */
    server_id: string
    /** The trace of that server's process. */
    process: string | null
    /** The project of an upload; `null` for deleted files. */
    project_id: string | null
    /** The space that an upload has reserved. */
    bytes: ColumnType<string, number | undefined, number>
    /** Until then other servers leave the file alone. */
    lease_until: Date
    created_at: Generated<Date>
  }
}
