import type { DatabaseFailure } from '../../contract/databases.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import type { Logger } from '../../platform/logger.ts'
import { activeLogins, ensureRoles, type RoleDependencies, rolesOf } from './credentials.ts'
import { enqueueDrop, enqueueReconcile, enqueueSnapshot, failureOf, mayRetry } from './jobs.ts'
import { type Engine, type Instance, openInstanceOf } from './postgres/engine.ts'
import { changeLogins, type LinkedApps } from './rotation.ts'
import type { DatabaseRow, DatabasesTables } from './rows.ts'
import {
  areSnapshotsInUse,
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

/** Runs work with the current row while nothing else changes the logins of the database, unless the row is gone. */
type WithLogins = (databaseId: string, work: (row: DatabaseRow) => Promise<void>) => Promise<void>

type DatabaseEvent =
  | { readonly event: 'database.available'; readonly databaseId: string; readonly projectId: string }
  | {
      readonly event: 'database.failed'
      readonly databaseId: string
      readonly projectId: string
      readonly failure: DatabaseFailure
    }

/** Records an event in the transaction that makes it true, so that both are committed or neither. */
export type AnnounceDatabase = (transaction: Transaction, event: DatabaseEvent) => Promise<void>

interface ProvisioningDependencies extends RoleDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly announce: AnnounceDatabase
  readonly logger: Logger
}

/** The opening of a database waits for other work on it for this time. */
const patienceMs = 1_000

type ReconcilerDependencies = ProvisioningDependencies & SnapshotDependencies

export function createDatabaseReconciler(dependencies: ReconcilerDependencies): DatabaseReconciler {
  const { database, plans } = dependencies
  /** The queue runs the jobs of a database in order, but the removal of its project is in another queue. */
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
  /** Calls `act` with the current row after all earlier calls for the database, unless the row is gone. */
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
        if (await areSnapshotsInUse(database, await closeSnapshots(database, databaseId))) {
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

/**
 * Starts the instances that hold databases in use. If an instance does not start, this is logged, the server starts
 * anyway, and the next use of the instance tries again.
 */
export async function openEngines(
  { database, engine, logger }: { readonly database: Database; readonly engine: Engine; readonly logger: Logger },
  signal: AbortSignal,
): Promise<void> {
  const rows = await database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .select(['version', 'port'])
    .distinct()
    .where('engine', '=', engine.name)
    .where('status', '=', 'available')
    .execute()
  await Promise.all(
    rows.map((key) =>
      engine.open(key, signal).catch((error: unknown) => {
        signal.throwIfAborted()
        logger.error({ err: error, version: key.version }, "users' databases cannot be reached yet")
      }),
    ),
  )
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

async function provision(
  dependencies: ProvisioningDependencies,
  row: DatabaseRow,
  withLogins: WithLogins,
  signal: AbortSignal,
): Promise<void> {
  const { database, engine, logger } = dependencies
  const instance = await openInstanceOf(engine, row, signal)
  await withLogins(row.id, (now) => ensureRoles(dependencies, instance, now, signal))
  const isClosed = await ensureContent(database, instance, row, signal)
  if (!isClosed) {
    await instance.roles.allowConnections(row.role_name, signal)
    await instance.closeCatalogue(row.role_name, signal)
  }
  await withLogins(row.id, async (now) => {
    const logins = activeLogins(now)
    await instance.roles.admit(row.role_name, logins, signal)
    if (now.restriction !== 'none') await instance.roles.restrict(row.role_name, logins, 'none', signal)
  })
  await makeAvailable(dependencies, row)
  logger.info({ database: row.id, version: row.version }, 'database is available')
}

/** Resolves to true when the database is new and its catalogue is closed. */
async function ensureContent(
  database: Database,
  instance: Instance,
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<boolean> {
  const snapshotId = row.source_snapshot_id
  if (snapshotId === null) return instance.databases.ensure(row.role_name, null, signal)
  const snapshot = await database
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .innerJoin('databases', 'databases.id', 'snapshots.database_id')
    .select(['snapshots.copy_name', 'databases.role_name', 'databases.second_role'])
    .where('snapshots.id', '=', snapshotId)
    .executeTakeFirstOrThrow()
  if (row.restore_id !== null) {
    await instance.databases.replaceContent(row.role_name, snapshot.copy_name, row.restore_id, signal)
    return false
  }
  const isClosed = await instance.databases.ensure(row.role_name, snapshot.copy_name, signal)
  await instance.roles.takeOwnership(row.role_name, rolesOf(snapshot), signal)
  return isClosed
}

async function makeAvailable(
  { database, announce }: Pick<ProvisioningDependencies, 'database' | 'announce'>,
  row: DatabaseRow,
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .withTables<DatabasesTables>()
      .updateTable('databases')
      .set({
        status: 'available',
        available_at: new Date(),
        source_snapshot_id: null,
        restore_id: null,
        restriction: 'none',
        failure: null,
      })
      .where('id', '=', row.id)
      .where('status', '=', 'provisioning')
      .executeTakeFirst()
    // If the database was just deleted, the job of the deletion closes it again.
    if (numUpdatedRows === 0n) return
    await announce(transaction, { event: 'database.available', databaseId: row.id, projectId: row.project_id })
  })
}

async function failProvisioning(
  { database, announce }: Pick<ProvisioningDependencies, 'database' | 'announce'>,
  row: DatabaseRow,
  failure: DatabaseFailure,
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    const { numUpdatedRows } = await transaction
      .withTables<DatabasesTables>()
      .updateTable('databases')
      .set({ status: 'failed', failure: JSON.stringify(failure), source_snapshot_id: null, restore_id: null })
      .where('id', '=', row.id)
      .where('status', '=', 'provisioning')
      .executeTakeFirst()
    if (numUpdatedRows === 0n) return
    await announce(transaction, {
      event: 'database.failed',
      databaseId: row.id,
      projectId: row.project_id,
      failure,
    })
  })
}

/** Removes a deleted database and its snapshots from the engine, and then their rows: nothing is left behind. */
async function dropDatabase(
  { database, engine, logger }: { readonly database: Database; readonly engine: Engine; readonly logger: Logger },
  row: DatabaseRow,
  signal: AbortSignal,
): Promise<void> {
  const snapshots = await snapshotsOf(database, row.id)
  if (await engine.exists(row.version)) {
    const instance = await openInstanceOf(engine, row, signal)
    await instance.databases.archive(row.role_name, rolesOf(row), signal)
    await instance.databases.drop([row.role_name, ...snapshots.map(({ copy_name }) => copy_name)], signal)
    // The second role is a member of the owner, so it is dropped first.
    for (const role of rolesOf(row).toReversed()) await instance.roles.drop(role, signal)
  }
  await database.transaction().execute(async (transaction) => {
    const trx = transaction.withTables<DatabasesTables>()
    await trx.deleteFrom('snapshots').where('database_id', '=', row.id).execute()
    await trx.deleteFrom('databases').where('id', '=', row.id).execute()
  })
  logger.info({ database: row.id }, 'database was removed')
}

function snapshotsOf(database: Database, databaseId: string): Promise<{ id: string; copy_name: string }[]> {
  return database
    .withTables<DatabasesTables>()
    .selectFrom('snapshots')
    .select(['id', 'copy_name'])
    .where('database_id', '=', databaseId)
    .execute()
}

/**
 * Enqueues a job for everything that an earlier server left unfinished. Time without a server does not count towards
 * the time limit of retries.
 */
async function resume(database: Database): Promise<void> {
  const db = database.withTables<DatabasesTables>()
  const provisioning = await db
    .updateTable('databases')
    .set({ provisioning_since: new Date() })
    .where('status', '=', 'provisioning')
    .returning('id')
    .execute()
  for (const { id } of provisioning) await enqueueReconcile(database, id)
  const due = await db.selectFrom('databases').select('id').where('drop_at', '<=', new Date()).execute()
  for (const { id } of due) await enqueueDrop(database, id, new Date())
  const snapshots = await db
    .updateTable('snapshots')
    .set({ creating_since: new Date() })
    .where('status', 'in', ['creating', 'deleting'])
    .returning(['id', 'database_id'])
    .execute()
  for (const { id, database_id } of snapshots) await enqueueSnapshot(database, id, database_id)
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
