import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Slots } from '../../platform/slots.ts'
import {
  type AccountSpace,
  createReservations,
  leaseEnd,
  type ServerStart,
  type Uploading,
  type Wanted,
} from './reservations.ts'
import type { StorageTables } from './rows.ts'
import type { FileStore } from './store.ts'

/**
 * Tracks files that are, or may be, in the store and have no row in `files`: running uploads, and deleted files that
 * are not yet removed. A row in `pending_files` is committed before the first byte is stored, replaced by the row in
 * `files` in one transaction, and deleted after the bytes are gone. So after a crash the rows name exactly the files to
 * remove.
 *
 * A row belongs to one run of a server until its lease expires; the server renews the leases of its uploads. Any server
 * settles abandoned rows: it takes a row over, and removes the file and then the row. It does so at once when the
 * owning process has ended on this machine, otherwise once the lease has expired. An upload that is still alive then
 * fails on completion.
 */
export interface PendingFiles {
  /** Runs an upload. Removes its stored bytes if it fails. */
  track<Result>(uploading: Uploading, upload: (pending: PendingUpload) => Promise<Result>): Promise<Result>
  /** Marks files for removal, in the transaction that deletes their rows. */
  markDeleted(transaction: Transaction, ids: readonly string[]): Promise<void>
  /** Removes marked files after that transaction has committed. May be repeated. */
  removeDeleted(ids: readonly string[]): Promise<void>
  /** Removes the files that ended servers have left behind. */
  recover(signal?: AbortSignal): Promise<void>
  /** Renews the leases of running uploads, and recovers. Each server calls it every `maintenanceMs`. */
  maintain(signal: AbortSignal): Promise<void>
}

export interface PendingUpload {
  /**
   * Reserves space and resolves to the bytes that the upload may have. If this is less than it needs, it must end. The
   * first call writes the row; no byte may be stored before it.
   */
  reserve(wanted: Wanted): Promise<number>
  /** Runs `work`, which flushes the received bytes to the disk, in the account's turn. */
  inTurn<Result>(work: () => Promise<Result>): Promise<Result>
  /**
   * Ends the pending state in the transaction that inserts the file's row. Rejects when another server has taken over.
   */
  complete(transaction: Transaction): Promise<void>
}

export interface PendingFilesDependencies {
  readonly database: Database
  readonly store: FileStore
  readonly server: ServerStart
  /** The space that all projects of an account may use together. Throws when the disk is nearly full. */
  readonly spaceOf: (transaction: Transaction, accountId: string) => Promise<AccountSpace>
  /** The slots, by account, in which uploads end. */
  readonly finishing: Slots<string>
  readonly hasEnded: (trace: string) => boolean
  readonly logger: Logger
}

export const maintenanceMs = 15_000
const expired = sql<boolean>`lease_until <= now()`

export function createPendingFiles(dependencies: PendingFilesDependencies): PendingFiles {
  const { database, store, server, finishing, logger } = dependencies
  const underWay = new Set<string>()
  const reserve = createReservations({ database, server, spaceOf: dependencies.spaceOf })

  const recover = async (signal?: AbortSignal): Promise<void> => {
    const ended = await endedProcesses(dependencies)
    // An upload of this server continues even if its lease could not be renewed in time.
    const which = sql`(${expired} or process = any(${sql.val(ended)}::text[])) and file_id <> all(${sql.val([...underWay])}::text[])`
    await settle(dependencies, await claim(dependencies, which), signal)
  }

  return {
    async track(uploading, upload) {
      const { id, accountId } = uploading
      const inTurn = <Result>(work: () => Promise<Result>) => finishing.use(accountId, undefined, work)
      let held: number | undefined
      try {
        return await upload({
          async reserve(wanted) {
            underWay.add(id)
            const granted = await reserve(uploading, held, wanted)
            if (granted >= wanted.least) held = granted
            return granted
          },
          inTurn,
          complete: (transaction) => completeUpload(transaction, id, server),
        })
      } catch (error) {
        if (underWay.has(id)) {
          await inTurn(() => discard(dependencies, id)).catch((err: unknown) => {
            logger.warn({ err, file: id }, 'the bytes of a failed upload could not be removed yet')
          })
        }
        throw error
      } finally {
        underWay.delete(id)
      }
    },
    async markDeleted(transaction, ids) {
      // Their leases start out expired, so any server may remove them.
      const row = { server_id: server.id, process: server.process, lease_until: sql<Date>`now()` }
      await transaction
        .withTables<StorageTables>()
        .insertInto('pending_files')
        .values(ids.map((id) => ({ file_id: id, ...row })))
        .execute()
    },
    async removeDeleted(ids) {
      for (const id of ids) await store.remove(id)
      await deleteRows(database, ids)
    },
    recover,
    async maintain(signal) {
      const mine = [...underWay]
      if (mine.length > 0) await renew(database, server, mine)
      await recover(signal)
    },
  }
}

/** Selects rows in the order in which every statement locks several of them, so that statements cannot deadlock. */
const locked = (which: ReturnType<typeof sql>) =>
  sql`file_id in (select file_id from pending_files where ${which} order by file_id for update)`

async function deleteRows(database: Database, ids: readonly string[]): Promise<void> {
  await sql`delete from pending_files where ${locked(sql`file_id = any(${sql.val(ids)}::text[])`)}`.execute(database)
}

async function renew(database: Database, { id }: ServerStart, ids: readonly string[]): Promise<void> {
  const mine = sql`server_id = ${id} and file_id = any(${sql.val(ids)}::text[])`
  await sql`update pending_files set lease_until = ${leaseEnd} where ${locked(mine)}`.execute(database)
}

async function completeUpload(transaction: Transaction, id: string, server: ServerStart): Promise<void> {
  const { numDeletedRows } = await transaction
    .withTables<StorageTables>()
    .deleteFrom('pending_files')
    .where('file_id', '=', id)
    .where('server_id', '=', server.id)
    .executeTakeFirstOrThrow()
  if (numDeletedRows === 0n)
    throw new Error('The lease of the upload had expired, and another server removed its bytes.')
}

async function endedProcesses({
  database,
  hasEnded,
}: Pick<PendingFilesDependencies, 'database' | 'hasEnded'>): Promise<string[]> {
  const rows = await database
    .withTables<StorageTables>()
    .selectFrom('pending_files')
    .select('process')
    .distinct()
    .execute()
  return rows.flatMap(({ process }) => (process !== null && hasEnded(process) ? [process] : []))
}

/**
 * Takes rows over and returns their file ids. Waits for transactions that are about to delete such a row, such as the
 * commit of a killed server: the ids do not include a file that such a commit makes permanent.
 */
async function claim(
  { database, server }: Pick<PendingFilesDependencies, 'database' | 'server'>,
  which: ReturnType<typeof sql>,
): Promise<string[]> {
  const { rows } = await sql<{ file_id: string }>`
    update pending_files set server_id = ${server.id}, process = ${server.process}, lease_until = ${leaseEnd}
    where ${locked(which)} returning file_id
  `.execute(database)
  return rows.map(({ file_id }) => file_id)
}

/**
 * Removes the bytes of a failed upload. A commit may have succeeded although its answer was lost: then `files` has a
 * row, and the file stays. Without any row, another server has settled the upload, perhaps before its last bytes.
 */
async function discard(dependencies: PendingFilesDependencies, id: string): Promise<void> {
  const { database, store, server } = dependencies
  const ids = await claim(dependencies, sql`file_id = ${id} and server_id = ${server.id}`)
  if (ids.length === 0 && (await isFile(database, id))) return
  await store.remove(id)
  await deleteRows(database, ids)
}

async function isFile(database: Database, id: string): Promise<boolean> {
  const files = database.withTables<StorageTables>().selectFrom('files')
  return (await files.select('id').where('id', '=', id).executeTakeFirst()) !== undefined
}

/** If a file cannot be removed now, the next attempt comes after the lease of its row has expired. */
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
