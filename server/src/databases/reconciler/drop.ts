import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import { rolesOf } from '../logins.ts'
import type { DatabaseRow, DatabasesTables } from '../tables.ts'

/**
 * Removes a deleted database and its snapshots, first from the engine and then their rows, so that nothing is left
 * behind.
 */
export async function dropDatabase(
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
