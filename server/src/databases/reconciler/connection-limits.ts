import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import { rolesOf } from '../logins.ts'
import { databaseLimits } from '../plan-limits.ts'
import type { DatabasesTables } from '../tables.ts'

/**
 * Returns a function that gives databases the connection limits of their plans: an earlier server may have lowered the
 * limits, or had other plans. Each call retries the databases that earlier calls could not reach.
 */
export function createConnectionLimitsCheck({
  database,
  engine,
  plans,
  logger,
}: {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
}): (signal: AbortSignal) => Promise<void> {
  const done = new Set<string>()
  return async (signal) => {
    const rows = await database
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .select(['id', 'role_name', 'second_role', 'plan', 'version', 'port', 'engine'])
      .where('status', '=', 'available')
      .where('engine', '=', engine.name)
      .execute()
    for (const row of rows.filter(({ id }) => !done.has(id))) {
      signal.throwIfAborted()
      try {
        const instance = await openInstanceOf(engine, row, signal)
        const { connections } = databaseLimits(planNamed(plans, row.plan))
        for (const role of rolesOf(row)) await instance.roles.ensureConnections(role, connections, signal)
        done.add(row.id)
      } catch (err) {
        if (!signal.aborted)
          logger.warn({ err, database: row.id }, 'the connection limit of a database could not be checked yet')
      }
    }
  }
}
