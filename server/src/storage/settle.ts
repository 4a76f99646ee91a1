import type { StorageParts } from './parts.ts'
import type { StorageTables } from './tables.ts'

type Parts = Pick<StorageParts, 'database' | 'store' | 'logger'>

/** Ends the doubt about a file: it stays if it has a row, else it is removed. Tells which. */
export async function settle({ database, store }: Parts, id: string): Promise<'kept' | 'removed'> {
  const row = await database
    .withTables<StorageTables>()
    .selectFrom('files')
    .select('id')
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) {
    await store.discard(id)
    return 'removed'
  }
  await store.confirm(id)
  return 'kept'
}

/** Ends what a crash has cut short. Called before there is anything new under way. */
export async function reconcileFiles(parts: Parts): Promise<void> {
  for (const id of await parts.store.doubtful()) {
    parts.logger.info({ file: id, fate: await settle(parts, id) }, 'settled a file that was under way at the last end')
  }
}
