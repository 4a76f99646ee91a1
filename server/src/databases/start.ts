import type { DatabaseParts } from './parts.ts'
import type { DatabasesTables } from './tables.ts'

/**
 * Brings up the engines that hold databases in use. One that does not come up keeps nobody from starting: it is logged,
 * and asked again when something needs it.
 */
export async function openEngines(
  { database, engine, logger }: Pick<DatabaseParts, 'database' | 'engine' | 'logger'>,
  signal: AbortSignal,
): Promise<void> {
  const rows = await database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .select('version')
    .distinct()
    .where('engine', '=', engine.name)
    .where('status', '=', 'available')
    .execute()
  await Promise.all(
    rows.map(({ version }) =>
      engine.open(version, signal).catch((error: unknown) => {
        signal.throwIfAborted()
        logger.error({ err: error, version }, "users' databases cannot be reached yet")
      }),
    ),
  )
}
