import type { DatabaseFailure } from '../contract/resources/databases.ts'
import type { Transaction } from '../platform/database.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import { planNamed } from '../platform/plans.ts'
import { scramVerifier } from './credentials.ts'
import { EngineError } from './engine.ts'
import type { Instance } from './instance.ts'
import { enqueueDrop, enqueueSettle, enqueueSnapshot } from './jobs.ts'
import { limitsOf, snapshotsToDrop } from './limits.ts'
import type { DatabaseParts } from './parts.ts'
import type { DatabaseRow, DatabasesTables } from './tables.ts'

/**
 * The work that rows ask for. Each function reads its row, does what is missing and may be called again at any time: a
 * server that dies in the middle leaves nothing that the next call would not find.
 */
export interface DatabaseWork {
  settle(databaseId: string, signal: AbortSignal): Promise<void>
  drop(databaseId: string, signal: AbortSignal): Promise<void>
  settleSnapshot(snapshotId: string, signal: AbortSignal): Promise<void>
  /** Removes the snapshots of a database that are more, older or larger than are kept. */
  pruneSnapshots(databaseId: string): Promise<void>
  /** Removes all databases of a project with their snapshots, for good. */
  removeProject(projectId: string, signal: AbortSignal): Promise<void>
  /** Takes up what a server left that has ended. */
  resume(): Promise<void>
}

/** For so long what may pass by itself is tried again before a database or snapshot has failed. */
const giveUpMs = 5 * 60_000
/** When it is looked again whether something is still in use. */
const again = () => new Date(Date.now() + 2_000)

export function createDatabaseWork(parts: DatabaseParts): DatabaseWork {
  const { database, engine, secrets, plans, logger } = parts
  const db = database.withTables<DatabasesTables>()
  /** The queue keeps jobs of one database apart; this keeps the removal of its project apart from them. */
  const oneAtATime = createKeyedLock()

  const find = (id: string) => db.selectFrom('databases').selectAll().where('id', '=', id).executeTakeFirst()

  const open = async (row: DatabaseRow, signal: AbortSignal): Promise<Instance> => {
    if (row.engine !== engine.name) {
      const message = `This database lies in the ${row.engine} engine, and the server runs with the ${engine.name} one.`
      throw new EngineError('engine_unavailable', message)
    }
    return engine.open(row.version, signal)
  }

  const ensureRole = async (instance: Instance, row: DatabaseRow, signal: AbortSignal): Promise<void> => {
    const verifier = await scramVerifier(secrets.decrypt(row.password, row.id))
    await instance.ensureRole({ name: row.id, verifier, limits: limitsOf(planNamed(plans, row.plan)) }, signal)
  }

  /** Tells the engine the password of the row, which no rotation may change between the look and the word. */
  const repeatPassword = async (row: DatabaseRow, signal: AbortSignal): Promise<void> => {
    const instance = await open(row, signal)
    await database.transaction().execute(async (transaction) => {
      const held = await transaction
        .withTables<DatabasesTables>()
        .selectFrom('databases')
        .selectAll()
        .where('id', '=', row.id)
        .where('status', '=', 'available')
        .forUpdate()
        .executeTakeFirst()
      if (held !== undefined) await ensureRole(instance, held, signal)
    })
  }

  const provision = async (row: DatabaseRow, signal: AbortSignal): Promise<void> => {
    const instance = await open(row, signal)
    await ensureRole(instance, row, signal)
    const source = row.source_snapshot_id
    if (row.restore_id !== null && source !== null) {
      await instance.replace(row.id, source, row.restore_id, signal)
    } else {
      await instance.ensureDatabase(row.id, source, signal)
      if (source !== null) await adoptFrom(source, row.id, instance, signal)
    }
    await instance.admit(row.id, signal)
    if (row.over_limit !== 'none') await instance.restrict(row.id, 'none')
    await database.transaction().execute(async (transaction) => {
      const { numUpdatedRows } = await transaction
        .withTables<DatabasesTables>()
        .updateTable('databases')
        .set({
          status: 'available',
          available_at: new Date(),
          source_snapshot_id: null,
          restore_id: null,
          over_limit: 'none',
          failure: null,
        })
        .where('id', '=', row.id)
        .where('status', '=', 'provisioning')
        .executeTakeFirst()
      // Deleted meanwhile: its next job puts it aside.
      if (numUpdatedRows === 0n) return
      const { id: databaseId, project_id: projectId } = row
      await parts.announce(transaction, { event: 'database.available', databaseId, projectId })
    })
    logger.info({ database: row.id, version: row.version }, 'database is available')
  }

  const adoptFrom = async (snapshotId: string, name: string, instance: Instance, signal: AbortSignal) => {
    const snapshot = await db
      .selectFrom('snapshots')
      .select('database_id')
      .where('id', '=', snapshotId)
      .executeTakeFirstOrThrow()
    await instance.adopt(name, snapshot.database_id, signal)
  }

  const fail = async (row: DatabaseRow, failure: DatabaseFailure): Promise<void> => {
    await database.transaction().execute(async (transaction) => {
      const { numUpdatedRows } = await transaction
        .withTables<DatabasesTables>()
        .updateTable('databases')
        .set({ status: 'failed', failure: JSON.stringify(failure), source_snapshot_id: null, restore_id: null })
        .where('id', '=', row.id)
        .where('status', '=', 'provisioning')
        .executeTakeFirst()
      if (numUpdatedRows === 0n) return
      const { id: databaseId, project_id: projectId } = row
      await parts.announce(transaction, { event: 'database.failed', databaseId, projectId, failure })
    })
  }

  const settle = async (databaseId: string, signal: AbortSignal): Promise<void> => {
    const row = await find(databaseId)
    if (row === undefined) return
    if (row.status === 'provisioning') {
      try {
        await provision(row, signal)
      } catch (error) {
        if (signal.aborted || Date.now() - row.provisioning_since.getTime() < giveUpMs) throw error
        logger.error({ err: error, database: databaseId }, 'database failed')
        await fail(row, failureOf(error))
      }
    } else if (row.status === 'available') {
      await repeatPassword(row, signal)
    } else if (row.status === 'deleting' && (await engine.exists(row.version))) {
      await (await open(row, signal)).park(databaseId, signal)
    }
  }

  const snapshotsOf = async (databaseId: string): Promise<string[]> => {
    const rows = await db.selectFrom('snapshots').select('id').where('database_id', '=', databaseId).execute()
    return rows.map(({ id }) => id)
  }

  /** Removes everything of a deleted database, the rows last. */
  const remove = async (row: DatabaseRow, signal: AbortSignal): Promise<void> => {
    const snapshots = await snapshotsOf(row.id)
    if (await engine.exists(row.version)) {
      const instance = await open(row, signal)
      await instance.park(row.id, signal)
      await instance.drop([row.id, ...snapshots], signal)
      await instance.dropRole(row.id, signal)
    }
    await database.transaction().execute(async (transaction) => {
      const trx = transaction.withTables<DatabasesTables>()
      await trx.deleteFrom('snapshots').where('database_id', '=', row.id).execute()
      await trx.deleteFrom('databases').where('id', '=', row.id).execute()
    })
    logger.info({ database: row.id }, 'database was removed')
  }

  /** Whether a database is being made or put back from one of these snapshots, which must stay so long. */
  const isUsed = async (snapshotIds: readonly string[]): Promise<boolean> => {
    if (snapshotIds.length === 0) return false
    const user = await db
      .selectFrom('databases')
      .select('id')
      .where('source_snapshot_id', 'in', snapshotIds)
      .where('status', '=', 'provisioning')
      .executeTakeFirst()
    return user !== undefined
  }

  const takeSnapshot = async (snapshotId: string, row: DatabaseRow, signal: AbortSignal): Promise<void> => {
    const instance = await open(row, signal)
    const begin = performance.now()
    await instance.copy(row.id, snapshotId, signal)
    const size = (await instance.sizes([snapshotId])).get(snapshotId) ?? 0
    // Together with what must go for it, so that there are never more than are kept.
    await database.transaction().execute(async (transaction) => {
      await transaction
        .withTables<DatabasesTables>()
        .updateTable('snapshots')
        .set({ status: 'available', size_bytes: String(size) })
        .where('id', '=', snapshotId)
        .where('status', '=', 'creating')
        .execute()
      await prune(transaction, row)
    })
    logger.info({ snapshot: snapshotId, ms: Math.round(performance.now() - begin) }, 'snapshot was taken')
  }

  const prune = async (transaction: Transaction, { id: databaseId, plan }: DatabaseRow): Promise<void> => {
    const trx = transaction.withTables<DatabasesTables>()
    const rows = await trx
      .selectFrom('snapshots')
      .selectAll()
      .where('database_id', '=', databaseId)
      .where('status', '=', 'available')
      .orderBy('id', 'desc')
      .execute()
    const kept = rows.map((each) => ({ id: each.id, sizeBytes: Number(each.size_bytes), createdAt: each.created_at }))
    for (const id of snapshotsToDrop(kept, limitsOf(planNamed(plans, plan)), new Date())) {
      await trx.updateTable('snapshots').set({ status: 'deleting' }).where('id', '=', id).execute()
      await enqueueSnapshot(transaction, id, databaseId)
    }
  }

  const settleSnapshot = async (snapshotId: string, row: DatabaseRow, signal: AbortSignal): Promise<void> => {
    const snapshot = await db.selectFrom('snapshots').selectAll().where('id', '=', snapshotId).executeTakeFirst()
    if (snapshot?.status === 'creating') {
      try {
        if (row.status !== 'available') throw new Error(`the database is ${row.status}`)
        await takeSnapshot(snapshotId, row, signal)
      } catch (error) {
        const isYoung = Date.now() - snapshot.creating_since.getTime() < giveUpMs
        if (signal.aborted || (isYoung && row.status === 'available')) throw error
        logger.error({ err: error, snapshot: snapshotId }, 'snapshot failed')
        await db
          .updateTable('snapshots')
          .set({ status: 'failed', failure: JSON.stringify(failureOf(error)) })
          .where('id', '=', snapshotId)
          .where('status', '=', 'creating')
          .execute()
      }
    } else if (snapshot?.status === 'deleting') {
      if (await isUsed([snapshotId])) return enqueueSnapshot(database, snapshotId, row.id, again())
      if (await engine.exists(row.version)) await (await open(row, signal)).drop([snapshotId], signal)
      await db.deleteFrom('snapshots').where('id', '=', snapshotId).execute()
    }
  }

  return {
    settle: (databaseId, signal) => oneAtATime(databaseId, () => settle(databaseId, signal)),

    drop: (databaseId, signal) =>
      oneAtATime(databaseId, async () => {
        const row = await find(databaseId)
        // Restored since, or deleted anew with another date.
        if (row === undefined || row.drop_at === null || row.drop_at > new Date()) return
        if (await isUsed(await snapshotsOf(databaseId))) return enqueueDrop(database, databaseId, again())
        await remove(row, signal)
      }),

    async settleSnapshot(snapshotId, signal) {
      const found = await db
        .selectFrom('snapshots')
        .select('database_id as id')
        .where('id', '=', snapshotId)
        .executeTakeFirst()
      if (found === undefined) return
      await oneAtATime(found.id, async () => {
        const row = await find(found.id)
        if (row !== undefined) await settleSnapshot(snapshotId, row, signal)
      })
    },

    async pruneSnapshots(databaseId) {
      const row = await find(databaseId)
      if (row !== undefined) await database.transaction().execute((transaction) => prune(transaction, row))
    },

    async removeProject(projectId, signal) {
      const rows = await db
        .updateTable('databases')
        .set({ status: 'deleting', drop_at: new Date() })
        .where('project_id', '=', projectId)
        .returning('id')
        .execute()
      for (const { id } of rows) {
        await oneAtATime(id, async () => {
          const row = await find(id)
          if (row !== undefined) await remove(row, signal)
        })
      }
    },

    async resume() {
      // The time that no server worked on them is not counted against them.
      const waiting = await db
        .updateTable('databases')
        .set({ provisioning_since: new Date() })
        .where('status', '=', 'provisioning')
        .returning('id')
        .execute()
      for (const { id } of waiting) await enqueueSettle(database, id)
      const due = await db.selectFrom('databases').select('id').where('drop_at', '<=', new Date()).execute()
      for (const { id } of due) await enqueueDrop(database, id, new Date())
      const snapshots = await db
        .updateTable('snapshots')
        .set({ creating_since: new Date() })
        .where('status', 'in', ['creating', 'deleting'])
        .returning(['id', 'database_id'])
        .execute()
      for (const { id, database_id } of snapshots) await enqueueSnapshot(database, id, database_id)
    },
  }
}

/** What a client is told; the error itself is in the log. */
function failureOf(error: unknown): DatabaseFailure {
  if (error instanceof EngineError) return { code: error.code, message: error.message }
  return { code: 'server_error', message: 'The engine refused it; the operator finds the reason in the log.' }
}
