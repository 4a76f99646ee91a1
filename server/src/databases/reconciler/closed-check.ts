import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Engine } from '../engines/engine.ts'
import type { DatabasesTables } from '../tables.ts'
import type { DatabaseReconciler } from './reconciler.ts'

/** Returns a function that opens databases that refuse connections although their rows say `available`. */
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
      .select(['id', 'role_name'])
      .where('status', '=', 'available')
      .where('engine', '=', engine.name)
      .execute()
    const ids = new Map(rows.map(({ id, role_name }) => [role_name, id]))
    const found = [...engine.instances().values()].filter((instance) => instance !== null)
    for (const instance of found) {
      for (const name of await instance.databases.closed([...ids.keys()])) {
        const id = ids.get(name)
        if (id !== undefined && (await reopen(id, signal)))
          logger.warn({ database: id }, 'a database in use was closed; it is open again')
      }
    }
  }
}
