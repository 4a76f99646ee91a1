import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Engine } from '../engines/engine.ts'
import type { DatabasesTables } from '../tables.ts'

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
