import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Engine } from '../engines/engine.ts'
import type { DatabasesTables } from '../tables.ts'
import type { DatabaseReconciler } from './reconciler.ts'

/** Returns a function that opens databases which refuse connections, although their rows say that they are available. */
export function createClosedCheck({
  database,
  engine,
  reopen,
  logger,
}: {
  readonly database: Database
  readonly engine: Pick<Engine, 'name' | 'instances'>
  readonly reopen: DatabaseReconciler['reopen']
  readonly logger: Pick<Logger, 'warn'>
}): (signal: AbortSignal) => Promise<void> {
  return async (signal) => {
    const rows = await database
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .select('id')
      .where('status', '=', 'available')
      .where('engine', '=', engine.name)
      .execute()
    const ids = rows.map(({ id }) => id)
    const found = [...engine.instances().values()].filter((instance) => instance !== null)
    for (const instance of found) {
      for (const id of await instance.databases.closed(ids)) {
        if (await reopen(id, signal)) logger.warn({ database: id }, 'a database in use was closed; it is open again')
      }
    }
  }
}
