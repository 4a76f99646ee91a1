import type { Database } from '../../platform/database.ts'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import { openInstanceOf } from '../engines/engine.ts'
import { enqueueDrop } from '../job-queue.ts'
import { rolesOf } from '../logins.ts'
import type { DatabaseRow, DatabasesTables } from '../tables.ts'
import { dropDatabase } from './drop.ts'
import { failureOf, mayRetry } from './failure.ts'
import { changeLogins, type LinkedApps } from './logins.ts'
import { failProvisioning, type ProvisioningDependencies, provision, type WithLogins } from './provision.ts'
import { resume } from './resume.ts'
import {
  areInUse,
  closeSnapshots,
  nextUseCheck,
  pruneSnapshots,
  reconcileSnapshot,
  type SnapshotDependencies,
} from './snapshots.ts'

/**
 * Reconciles databases and snapshots with their rows. Every function reads the row and does the missing steps, so it
 * can be repeated at any time: the next call completes the work of a server that died.
 */
export interface DatabaseReconciler {
  reconcile(databaseId: string, signal: AbortSignal): Promise<void>
  /**
   * Opens a database in use. Resolves to false when it is open already, or when other work on it is running, such as a
   * copy, which opens the database at its end.
   */
  reopen(databaseId: string, signal: AbortSignal): Promise<boolean>
  /** Continues the rotation of a password. It does not wait for other work on the database, such as a copy. */
  changeLogins(databaseId: string, linked: LinkedApps, signal: AbortSignal): Promise<void>
  readonly withLogins: WithLogins
  /** Removes a deleted database permanently, if it can no longer be restored. */
  drop(databaseId: string, signal: AbortSignal): Promise<void>
  reconcileSnapshot(snapshotId: string, signal: AbortSignal): Promise<void>
  pruneSnapshots(databaseId: string): Promise<void>
  removeProject(projectId: string, signal: AbortSignal): Promise<void>
  /** Enqueues jobs for everything that an earlier server left unfinished. */
  resume(): Promise<void>
}

/** The time for which the opening of a database waits for other work on that database. */
const patienceMs = 1_000

export type ReconcilerDependencies = ProvisioningDependencies & SnapshotDependencies

export function createDatabaseReconciler(dependencies: ReconcilerDependencies): DatabaseReconciler {
  const { database, plans } = dependencies
  /** The queue runs the jobs of a database one after the other, but the removal of its project is in another queue. */
  const oneAtATime = createKeyedLock()
  /** Taken after the lock of the other work, or without that lock. */
  const loginsOneAtATime = createKeyedLock()
  const withLogins: WithLogins = (databaseId, work) =>
    loginsOneAtATime(databaseId, async () => {
      const row = await findRow(database, databaseId)
      if (row !== undefined) await work(row)
    })
  const dropRow = (row: DatabaseRow, signal: AbortSignal): Promise<void> =>
    withLogins(row.id, (now) => dropDatabase(dependencies, now, signal))
  /** Calls `act` with the current row when all earlier calls for the database have ended, unless the row is gone. */
  const withRow = (
    databaseId: string,
    act: (row: DatabaseRow) => Promise<void>,
    patience?: AbortSignal,
  ): Promise<void> =>
    oneAtATime(
      databaseId,
      async () => {
        const row = await findRow(database, databaseId)
        if (row !== undefined) await act(row)
      },
      patience,
    )

  return {
    reconcile: (databaseId, signal) =>
      withRow(databaseId, (row) => reconcileDatabase(dependencies, row, withLogins, signal)),
    changeLogins: (databaseId, linked, signal) =>
      withLogins(databaseId, (row) => changeLogins(dependencies, linked, row, signal)),
    withLogins,

    async reopen(databaseId, signal) {
      const patience = AbortSignal.timeout(patienceMs)
      let isReopened = false
      const open = async (row: DatabaseRow): Promise<void> => {
        if (row.status !== 'available') return
        const { databases } = await openInstanceOf(dependencies.engine, row, signal)
        // A copy that closed the database may have opened it since.
        if ((await databases.closed([row.role_name])).length === 0) return
        await databases.reopen(row.role_name, signal)
        isReopened = true
      }
      await withRow(databaseId, open, patience).catch((error: unknown) => {
        if (error !== patience.reason) throw error
      })
      return isReopened
    },

    drop: (databaseId, signal) =>
      withRow(databaseId, async (row) => {
        // The database was restored in between.
        if (row.drop_at === null) return
        // The database was deleted again, with a later date, or the clock was set back.
        if (row.drop_at > new Date()) return enqueueDrop(database, databaseId, row.drop_at)
        if (await areInUse(database, await closeSnapshots(database, databaseId))) {
          return enqueueDrop(database, databaseId, nextUseCheck())
        }
        await dropRow(row, signal)
      }),

    async reconcileSnapshot(snapshotId, signal) {
      const databaseId = await databaseOfSnapshot(database, snapshotId)
      if (databaseId === undefined) return
      await withRow(databaseId, (row) => reconcileSnapshot(dependencies, snapshotId, row, signal))
    },

    async pruneSnapshots(databaseId) {
      const row = await findRow(database, databaseId)
      if (row === undefined) return
      await database.transaction().execute((transaction) => pruneSnapshots(transaction, plans, row))
    },

    async removeProject(projectId, signal) {
      const rows = await database
        .withTables<DatabasesTables>()
        .updateTable('databases')
        .set({ status: 'deleting', drop_at: new Date() })
        .where('project_id', '=', projectId)
        .returning('id')
        .execute()
      for (const { id } of rows) await withRow(id, (row) => dropRow(row, signal))
    },

    resume: () => resume(database),
  }
}

async function reconcileDatabase(
  dependencies: ReconcilerDependencies,
  row: DatabaseRow,
  withLogins: WithLogins,
  signal: AbortSignal,
): Promise<void> {
  const { engine } = dependencies
  if (row.status === 'provisioning') {
    await provisionOrFail(dependencies, row, withLogins, signal)
  } else if (row.status === 'deleting' && (await engine.exists(row.version))) {
    const instance = await openInstanceOf(engine, row, signal)
    await withLogins(row.id, (now) => instance.databases.archive(row.role_name, rolesOf(now), signal))
  }
}

async function provisionOrFail(
  dependencies: ProvisioningDependencies,
  row: DatabaseRow,
  withLogins: WithLogins,
  signal: AbortSignal,
): Promise<void> {
  try {
    await provision(dependencies, row, withLogins, signal)
  } catch (error) {
    if (signal.aborted || mayRetry(row.provisioning_since)) throw error
    dependencies.logger.error({ err: error, database: row.id }, 'database failed')
    await failProvisioning(dependencies, row, failureOf(error))
  }
}

function findRow(database: Database, id: string): Promise<DatabaseRow | undefined> {
  return database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirst()
}

async function databaseOfSnapshot(database: Database, snapshotId: string): Promise<string | undefined> {
  const snapshot = await database
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .select('database_id')
    .where('id', '=', snapshotId)
    .executeTakeFirst()
  return snapshot?.database_id
}
