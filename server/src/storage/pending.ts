import { sql } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import type { FileStore } from './store.ts'
import type { StorageTables } from './tables.ts'

/**
 * Keeps track of files that are in the store, or may be, and have no row in `files`: uploads under way, and deleted files
 * that are not yet removed. Each has a row in `pending_files`, which is committed before the first byte is stored, is
 * exchanged for the row in `files` in one transaction, and is deleted after the bytes are gone. So after a crash the rows
 * name exactly the files to remove, and nothing has to be searched for.
 *
 * A row belongs to the server that wrote it, by the id of its data directory, for as long as its lease lasts. The server
 * renews the leases of its uploads. Two kinds of rows have nobody working on them and are settled, which means that the
 * file is removed and then the row: at a start the server's own, because the process that wrote them has ended; at any
 * time those of any server whose lease has expired. To settle, a server first takes the row over. Should the upload still
 * be alive, it finds its row taken when it wants to complete, and fails.
 */
export interface PendingFiles {
  /** Runs an upload. When it fails, the bytes that it stored are removed. */
  track<Result>(id: string, upload: (pending: PendingUpload) => Promise<Result>): Promise<Result>
  /** Marks files for removal, in the transaction that deletes their rows. */
  markDeleted(transaction: Transaction, ids: readonly string[]): Promise<void>
  /** Removes files that were marked, once that transaction has committed. May be repeated. */
  removeDeleted(ids: readonly string[]): Promise<void>
  /** Removes the files that this server's last process and servers that died left behind. For a start. */
  recover(): Promise<void>
  /** Renews the leases of uploads under way and settles rows whose lease has expired. For every `maintenanceMs`. */
  maintain(signal: AbortSignal): Promise<void>
}

export interface PendingUpload {
  /** Resolves when bytes may be stored under the file's id. */
  begin(): Promise<void>
  /** Ends the pending state, in the transaction that inserts the file's row. Rejects when another server has taken over. */
  complete(transaction: Transaction): Promise<void>
}

export interface PendingFilesDependencies {
  readonly database: Database
  readonly store: FileStore
  /** The same for each process on a data directory, and different for each data directory. */
  readonly serverId: string
  readonly logger: Logger
}

/** A lease survives three renewals that are late or fail. */
export const maintenanceMs = 15_000
const leaseEnd = sql<Date>`now() + interval '60 seconds'`
const expired = sql<boolean>`lease_until <= now()`

export function createPendingFiles(dependencies: PendingFilesDependencies): PendingFiles {
  const { database, store, serverId, logger } = dependencies
  const underWay = new Set<string>()

  return {
    async track(id, upload) {
      try {
        return await upload({
          async begin() {
            underWay.add(id)
            await insertRows(database, [id], serverId, leaseEnd)
          },
          complete: (transaction) => completeUpload(transaction, id, serverId),
        })
      } catch (error) {
        if (underWay.has(id)) {
          await discard(dependencies, id).catch((err: unknown) => {
            logger.warn({ err, file: id }, 'the bytes of a failed upload could not be removed yet')
          })
        }
        throw error
      } finally {
        underWay.delete(id)
      }
    },
    markDeleted: (transaction, ids) => insertRows(transaction, ids, serverId, sql<Date>`now()`),
    async removeDeleted(ids) {
      for (const id of ids) await store.remove(id)
      await deleteRows(database, ids)
    },
    async recover() {
      const ids = await claim(database, serverId, sql`server_id = ${serverId} or ${expired}`)
      await settle(dependencies, ids)
    },
    async maintain(signal) {
      const mine = [...underWay]
      if (mine.length > 0) await renew(database, serverId, mine)
      // An upload that has begun since then has a fresh lease.
      const ids = await claim(database, serverId, sql`${expired} and file_id <> all(${sql.val(mine)}::text[])`)
      await settle(dependencies, ids, signal)
    },
  }
}

async function insertRows(
  database: Database | Transaction,
  ids: readonly string[],
  serverId: string,
  leaseUntil: ReturnType<typeof sql<Date>>,
): Promise<void> {
  await database
    .withTables<StorageTables>()
    .insertInto('pending_files')
    .values(ids.map((id) => ({ file_id: id, server_id: serverId, lease_until: leaseUntil })))
    .execute()
}

async function deleteRows(database: Database, ids: readonly string[]): Promise<void> {
  await database.withTables<StorageTables>().deleteFrom('pending_files').where('file_id', 'in', ids).execute()
}

async function renew(database: Database, serverId: string, ids: readonly string[]): Promise<void> {
  await database
    .withTables<StorageTables>()
    .updateTable('pending_files')
    .set({ lease_until: leaseEnd })
    .where('server_id', '=', serverId)
    .where('file_id', 'in', ids)
    .execute()
}

async function completeUpload(transaction: Transaction, id: string, serverId: string): Promise<void> {
  const { numDeletedRows } = await transaction
    .withTables<StorageTables>()
    .deleteFrom('pending_files')
    .where('file_id', '=', id)
    .where('server_id', '=', serverId)
    .executeTakeFirstOrThrow()
  if (numDeletedRows === 0n)
    throw new Error('The lease of the upload had expired, and another server removed its bytes.')
}

/**
 * Takes rows over and returns their file ids. Waits for transactions that are about to delete one of them, such as the
 * commit of a server that was killed: a file that they make permanent is not among the ids.
 */
async function claim(database: Database, serverId: string, which: ReturnType<typeof sql>): Promise<string[]> {
  const { rows } = await sql<{ file_id: string }>`
    update pending_files set server_id = ${serverId}, lease_until = ${leaseEnd} where ${which} returning file_id
  `.execute(database)
  return rows.map(({ file_id }) => file_id)
}

/** A commit whose answer was lost may have succeeded. Then there is no row any more, and the file stays. */
async function discard({ database, store, serverId }: PendingFilesDependencies, id: string): Promise<void> {
  const ids = await claim(database, serverId, sql`file_id = ${id} and server_id = ${serverId}`)
  if (ids.length === 0) return
  await store.remove(id)
  await deleteRows(database, [id])
}

/** A file that cannot be removed now is tried again once the lease of its row has expired. */
async function settle(
  { database, store, logger }: PendingFilesDependencies,
  ids: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  for (const id of ids) {
    if (signal?.aborted) return
    try {
      await store.remove(id)
      await deleteRows(database, [id])
      logger.info({ file: id }, 'removed the file of an interrupted upload or deletion')
    } catch (error) {
      logger.error({ err: error, file: id }, 'the file of an interrupted upload or deletion could not be removed')
    }
  }
}
