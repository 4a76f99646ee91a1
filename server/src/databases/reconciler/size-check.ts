import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import { createSlots } from '../../platform/slots.ts'
import { type Engine, openInstanceOf } from '../engines/engine.ts'
import type { Instance } from '../engines/instance.ts'
import { activeLogins } from '../logins.ts'
import { databaseLimits, restrictionFor } from '../plan-limits.ts'
import { nextShrinking, type Shrinking } from '../shrinking.ts'
import type { DatabaseRow, DatabasesTables, Restriction } from '../tables.ts'
import type { DatabaseReconciler } from './reconciler.ts'

export interface SizeCheckDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
  readonly reconciler: Pick<DatabaseReconciler, 'withLogins'>
}

/** Restricts databases that exceed the size of their plan, and lifts the restriction when they no longer do. */
export interface SizeCheck {
  /** Begins to check all databases; slow databases do not delay the next check of the others. */
  all(signal: AbortSignal): Promise<void>
  /** Checks the restricted databases, which may still be growing. */
  restricted(signal: AbortSignal): Promise<void>
  ended(): Promise<void>
}

/** The databases that are checked at the same time. A slow database delays the others by no more than its own reads. */
const concurrency = 3

export function createSizeCheck(dependencies: SizeCheckDependencies): SizeCheck {
  const { database, engine, plans, logger, reconciler } = dependencies
  const slots = createSlots(concurrency)
  const restrictions = createRestrictions(plans)
  const underWay = new Map<string, Promise<void>>()

  const check = async (instance: Instance, row: DatabaseRow, signal: AbortSignal): Promise<void> => {
    const size = await slots.use('sizes', signal, async () =>
      (await instance.statistics.sizes([row.role_name])).get(row.role_name),
    )
    if (size === undefined) return
    const restriction = restrictions.of(row, size)
    if (restriction === row.restriction) return
    await reconciler.withLogins(row.id, (now) => restrict(database, instance, now, restriction, signal))
    logger.warn({ database: row.id, size, restriction }, 'the size of a database has crossed a limit')
  }

  /** Does nothing while work with the same key is running. */
  const begin = (key: string, signal: AbortSignal, work: () => Promise<void>): void => {
    if (underWay.has(key)) return
    const working = work()
      .catch((err: unknown) => {
        if (!signal.aborted) logger.error({ err, key }, 'limiting the size of databases failed')
      })
      .finally(() => underWay.delete(key))
    underWay.set(key, working)
  }

  const checkRows = (rows: readonly DatabaseRow[], signal: AbortSignal): void => {
    for (const [version, ofVersion] of Map.groupBy(rows, (row) => row.version)) {
      const [first] = ofVersion
      if (first === undefined) continue
      begin(version, signal, async () => {
        // Starts an instance whose earlier start failed. An instance that does not answer is reported once, not for
        // each row.
        const instance = await openInstanceOf(engine, first, signal)
        await instance.statistics.majorVersion()
        for (const row of ofVersion) begin(row.id, signal, () => check(instance, row, signal))
      })
    }
  }

  return {
    async all(signal) {
      const rows = await databasesOf(database, engine).execute()
      restrictions.keep(new Set(rows.map(({ id }) => id)))
      checkRows(rows, signal)
    },
    async restricted(signal) {
      checkRows(await databasesOf(database, engine).where('restriction', '<>', 'none').execute(), signal)
    },
    async ended() {
      while (underWay.size > 0) await Promise.all(underWay.values())
    },
  }
}

const databasesOf = (database: SizeCheckDependencies['database'], engine: Pick<Engine, 'name'>) =>
  database
    .withTables<DatabasesTables>()
    .selectFrom('databases')
    .selectAll()
    .where('status', '=', 'available')
    .where('engine', '=', engine.name)

/**
 * Decides how databases are restricted, and remembers the databases that are far above their size. A new leader starts
 * without this memory, and lets their owners in.
 */
function createRestrictions(plans: Plans) {
  const shrinking = new Map<string, Shrinking>()
  return {
    of(row: DatabaseRow, size: number): Restriction {
      const limits = databaseLimits(planNamed(plans, row.plan))
      const level = restrictionFor(size, limits, shrinking.has(row.id) ? 'no_login' : row.restriction)
      if (level !== 'no_login') {
        shrinking.delete(row.id)
        return level
      }
      const state = nextShrinking(shrinking.get(row.id), size, limits, Date.now())
      shrinking.set(row.id, state)
      return state.closedUntil === null ? 'read_only' : 'no_login'
    },
    keep(ids: ReadonlySet<string>): void {
      for (const id of shrinking.keys()) if (!ids.has(id)) shrinking.delete(id)
    },
  }
}

async function restrict(
  database: Database,
  instance: Instance,
  row: DatabaseRow,
  restriction: Restriction,
  signal: AbortSignal,
): Promise<void> {
  await instance.roles.restrict(row.role_name, activeLogins(row), restriction, signal)
  await database
    .withTables<DatabasesTables>()
    .updateTable('databases')
    .set({ restriction })
    .where('id', '=', row.id)
    .where('status', '=', 'available')
    .execute()
}
