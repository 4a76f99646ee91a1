import { notFound } from '../contract/errors.ts'
import type { Transaction } from '../platform/database.ts'
import type { StorageParts } from './parts.ts'
import { deleteRow } from './rows.ts'
import type { StorageTables } from './tables.ts'

/** Files of a project that are deleted in one transaction. */
const batchSize = 100

/** Deletes a file's row. Returns a function that removes the file, to be called after the commit. Throws `not_found`. */
export async function deleteFile(
  { pending, background }: Pick<StorageParts, 'pending' | 'background'>,
  file: { readonly transaction: Transaction; readonly projectId: string; readonly id: string },
): Promise<() => void> {
  const { transaction, projectId, id } = file
  if (!(await deleteRow(transaction, projectId, id))) throw notFound()
  await pending.markDeleted(transaction, [id])
  return () => background.add(pending.removeDeleted([id]), { file: id })
}

/** Removes all files of a project to which nothing can be uploaded any more. May be repeated until it resolves. */
export async function removeProjectFiles(
  { database, pending }: Pick<StorageParts, 'database' | 'pending'>,
  projectId: string,
): Promise<void> {
  const db = database.withTables<StorageTables>()
  for (;;) {
    const rows = await db
      .selectFrom('files')
      .select('id')
      .where('project_id', '=', projectId)
      .limit(batchSize)
      .execute()
    if (rows.length === 0) break
    const deleted = await database.transaction().execute(async (transaction) => {
      const ids: string[] = []
      for (const { id } of rows) if (await deleteRow(transaction, projectId, id)) ids.push(id)
      if (ids.length > 0) await pending.markDeleted(transaction, ids)
      return ids
    })
    if (deleted.length > 0) await pending.removeDeleted(deleted)
  }
  await db.deleteFrom('storage_usage').where('project_id', '=', projectId).execute()
}
