import { type Insertable, sql } from 'kysely'
import type { Transaction } from '../platform/database.ts'
import { tooLarge } from './limits.ts'
import type { StorageTables } from './tables.ts'

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
