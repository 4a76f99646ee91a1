import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Plans } from '../../platform/plans.ts'
import type { Engine } from '../engines/engine.ts'
import type { DatabasesTables } from '../tables.ts'
import type { DatabaseReconciler } from './reconciler.ts'
import { checkSizes } from './size-check.ts'

const locksEveryMs = 1_000
const sizesEveryMs = 10_000
const snapshotsEveryMs = 60 * 60_000

/**
 * All databases of a version share PostgreSQL's lock table, and PostgreSQL has no limit for a single one. The sessions of
 * a database with more locks than this are ended.
 */
const maxLocks = 20_000

export interface ChecksDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
  readonly reconciler: Pick<DatabaseReconciler, 'pruneSnapshots'>
}

/** Starts the periodic checks of locks, sizes and the age of snapshots. */
export function startDatabaseChecks(dependencies: ChecksDependencies): { stop(): Promise<void> } {
  const { database, engine, logger, reconciler } = dependencies

  const checkLocks = async (): Promise<void> => {
    for (const oid of await engine.limitLocks(maxLocks)) {
      logger.warn({ oid, maxLocks }, 'sessions of a database were ended: they held too many locks')
    }
  }

  const checkSnapshots = async (): Promise<void> => {
    const rows = await database
      .withTables<DatabasesTables>()
      .selectFrom('snapshots')
      .select('database_id as id')
      .distinct()
      .execute()
    for (const { id } of rows) await reconciler.pruneSnapshots(id)
  }

  const checks = [
    startPeriodic({ name: 'limiting the locks of databases', everyMs: locksEveryMs, work: checkLocks, logger }),
    startPeriodic({
      name: 'limiting the size of databases',
      everyMs: sizesEveryMs,
      work: (signal) => checkSizes(dependencies, signal),
      logger,
    }),
    startPeriodic({ name: 'removing old snapshots', everyMs: snapshotsEveryMs, work: checkSnapshots, logger }),
  ]
  return {
    async stop() {
      await Promise.all(checks.map((check) => check.stop()))
    },
  }
}
