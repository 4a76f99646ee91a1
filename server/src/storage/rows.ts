import { type Insertable, sql } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'
import { tooLarge } from './limits.ts'
import type { StorageTables } from './tables.ts'

/** What is read of a file. */
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
 * Inserts a file's row and counts it in; uploads that end at the same time come one after the other here.
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

/** Deletes a file's row and counts it out. Gives its size, or `undefined` when there is none. */
export async function deleteFile(
  transaction: Transaction,
  projectId: string,
  id: string,
): Promise<{ size: number } | undefined> {
  const trx = transaction.withTables<StorageTables>()
  // First what everybody waits for, so that no two wait for each other.
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
  if (row === undefined) return undefined
  const size = Number(row.size)
  await trx
    .updateTable('storage_usage')
    .set({ bytes: sql<number>`bytes - ${size}` })
    .where('project_id', '=', projectId)
    .execute()
  return { size }
}

/** Bytes that the files of each of these projects take, in their order. */
export async function storedBytes(database: Database, projectIds: readonly string[]): Promise<number[]> {
  const rows = await database
    .withTables<StorageTables>()
    .selectFrom('storage_usage')
    .select(['project_id', 'bytes'])
    .where('project_id', '=', sql<string>`any(${[...projectIds]}::text[])`)
    .execute()
  const stored = new Map(rows.map(({ project_id, bytes }) => [project_id, Number(bytes)]))
  return projectIds.map((id) => stored.get(id) ?? 0)
}
