import type { DatabaseFailure } from '../../contract/databases.ts'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import type { Instance } from '../engines/instance.ts'
import { ensureRoles, type RoleDependencies } from '../engines/logins.ts'
import type { Announce } from '../events.ts'
import { activeLogins, rolesOf } from '../logins.ts'
import type { DatabaseRow, DatabasesTables } from '../tables.ts'

export interface ProvisioningDependencies extends RoleDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly announce: Announce
  readonly logger: Logger
}

/** Runs work with the current row while nothing else changes the logins of the database, unless the row is gone. */
export type WithLogins = (databaseId: string, work: (row: DatabaseRow) => Promise<void>) => Promise<void>

/** Creates or restores the database in the engine, then makes its row `available` and announces it. */
export async function provision(
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
    // If the database was deleted in between, the deletion's own job closes it again.
    if (numUpdatedRows === 0n) return
    await announce(transaction, { event: 'database.available', databaseId: row.id, projectId: row.project_id })
  })
}

/** Marks a database that could not be provisioned as `failed` and announces this. */
export async function failProvisioning(
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
