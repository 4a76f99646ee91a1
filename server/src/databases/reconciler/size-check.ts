import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import type { Engine } from '../engines/engine.ts'
import type { Instance } from '../engines/instance.ts'
import { databaseLimits, restrictionFor } from '../plan-limits.ts'
import type { DatabaseRow, DatabasesTables } from '../tables.ts'

export interface SizeCheckDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
}

/** Restricts databases that are larger than their plan allows, and lifts the restriction of those that are no longer. */
export async function checkSizes(dependencies: SizeCheckDependencies, signal: AbortSignal): Promise<void> {
  const { database, engine } = dependencies
  const rows = await database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .selectAll()
    .where('status', '=', 'available')
    .where('engine', '=', engine.name)
    .execute()
  for (const [version, ofVersion] of Map.groupBy(rows, (row) => row.version)) {
    const port = ofVersion[0]?.port
    if (port === undefined) continue
    // Starts an instance that could not be started before.
    const instance = await engine.open({ version, port }, signal)
    const sizes = await instance.statistics.sizes(ofVersion.map(({ id }) => id))
    for (const row of ofVersion) {
      const size = sizes.get(row.id)
      if (size !== undefined) await restrictBySize(dependencies, instance, row, size, signal)
    }
  }
}

async function restrictBySize(
  { database, plans, logger }: Pick<SizeCheckDependencies, 'database' | 'plans' | 'logger'>,
  instance: Instance,
  row: DatabaseRow,
  size: number,
  signal: AbortSignal,
): Promise<void> {
  const restriction = restrictionFor(size, databaseLimits(planNamed(plans, row.plan)), row.restriction)
  if (restriction === row.restriction) return
  await instance.roles.restrict(row.id, restriction, signal)
  await database
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ restriction })
    .where('id', '=', row.id)
    .where('status', '=', 'available')
    .execute()
  logger.warn({ database: row.id, size, restriction }, 'the size of a database has crossed a limit')
}
