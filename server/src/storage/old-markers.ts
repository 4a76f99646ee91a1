import { readdir, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isId } from '../contract/ids.ts'
import type { Database } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import type { StorageTables } from './rows.ts'
import type { FileStore } from './store.ts'

export interface OldMarkersDependencies {
  readonly database: Database
  readonly store: FileStore
  readonly directory: string
  readonly logger: Logger
}

/**
 * Settles the files that an earlier version left in `doubtful/`, and removes that folder. Before `pending_files`
 * existed, the folder held an empty file named after the id of each pending file, and unfinished files as `<id>.part`.
 * A file with a row in `files` stays; all others are removed. May be repeated after a crash.
 */
export async function settleOldMarkers({ database, store, directory, logger }: OldMarkersDependencies): Promise<void> {
  const folder = join(directory, 'doubtful')
  const names = await namesIn(folder)
  if (names === undefined) return
  const ids = [...new Set(names.map((name) => name.replace(/\.part$/, '')))].filter((id) => isId('file', id))
  const kept = new Set(await filesAmong(database, ids))
  for (const id of ids) {
    if (!kept.has(id)) await store.remove(id)
    await rm(join(folder, `${id}.part`), { force: true })
    await rm(join(folder, id), { force: true })
    logger.info({ file: id, kept: kept.has(id) }, 'settled a file that an earlier version had left pending')
  }
  await rmdir(folder).catch((error: NodeJS.ErrnoException) => {
    // Another server that starts at the same time may have removed the folder.
    if (error.code === 'ENOENT') return
    logger.warn({ err: error, folder }, 'a folder of an earlier version cannot be removed: it holds something else')
  })
}

async function namesIn(folder: string): Promise<string[] | undefined> {
  try {
    return await readdir(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function filesAmong(database: Database, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return []
  const rows = await database
    .withTables<StorageTables>()
    .selectFrom('files')
    .select('id')
    .where('id', 'in', ids)
    .execute()
  return rows.map(({ id }) => id)
}
