import { type ColumnType, type Generated, type Insertable, sql } from 'kysely'
import type { Transaction } from '../../platform/database.ts'
import { tooLarge } from './reservations.ts'

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
 * Inserts a file's row and adds its size to the project's usage. The lock on the row in `storage_usage` makes
 * concurrent ends of uploads wait for each other. Throws `invalid_request` when the files of the project would exceed
 * `quotaBytes`.
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

/** Deletes a file's row and subtracts its size from the project's usage. Resolves to false without such a file. */
export async function deleteRow(transaction: Transaction, projectId: string, id: string): Promise<boolean> {
  const trx = transaction.withTables<StorageTables>()
  // Locked first, like in an upload: transactions with different lock orders could deadlock.
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

export type StorageTables = {
  files: {
    id: string
    project_id: string
    name: string
    size: Bytes
    /** The media type from the upload; `null` when it was not well-formed. */
    declared_type: string | null
    detected_type: string | null
    sha256: Buffer
    token: Buffer
    uploaded_at: Generated<Date>
  }
  storage_usage: {
    project_id: string
    bytes: Bytes
  }
  /** Has no row for a file that has a row in `files`. */
  pending_files: {
    file_id: string
    /** The run of the server that owns the upload or deletion, or has taken it over. */
    server_id: string
    process: string | null
    /** The project of an upload; `null` for deleted files. */
    project_id: string | null
    bytes: ColumnType<string, number | undefined, number>
    /** Until this time other servers do not touch the file. */
    lease_until: Date
    created_at: Generated<Date>
  }
}
