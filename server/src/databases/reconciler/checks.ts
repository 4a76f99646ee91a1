import { sql } from 'kysely'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Plans } from '../../platform/plans.ts'
import type { Engine } from '../engines/engine.ts'
import type { DatabasesTables } from '../tables.ts'
import { createClosedCheck } from './closed-check.ts'
import { createConnectionCheck } from './connection-check.ts'
import { createConnectionLimitsCheck } from './connection-limits.ts'
import { createSettingsCheck } from './logins.ts'
import type { DatabaseReconciler } from './reconciler.ts'
import { checkSessions, type IdsOf } from './session-check.ts'
import { createSizeCheck } from './size-check.ts'

const locksEveryMs = 1_000
const loginsEveryMs = 250
const connectionsEveryMs = 500
const sessionsEveryMs = 1_000
const sizesEveryMs = 10_000
const closedEveryMs = 10_000
/** The interval between size checks of restricted databases. */
const restrictedEveryMs = 1_000
const settingsEveryMs = 5_000
const snapshotsEveryMs = 60 * 60_000
const limitsEveryMs = 60 * 60_000

/**
 * All databases of a version share PostgreSQL's lock table, and PostgreSQL has no limit for a single database. If a
 * database holds more locks than this, its sessions are ended.
 */
const maxLocks = 20_000

export interface ChecksDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
  readonly reconciler: Pick<DatabaseReconciler, 'pruneSnapshots' | 'reopen' | 'withLogins'>
}

export function startDatabaseChecks(dependencies: ChecksDependencies): { stop(): Promise<void> } {
  const { database, logger, reconciler } = dependencies

  /** The log names databases by the ids that operators see. */
  const idsOf: IdsOf = async (names) => {
    const rows = await database
      .withTables<DatabasesTables>()
      .selectFrom('databases')
      .select('id')
      .where(sql<boolean>`array[role_name, second_role] && ${[...names]}::text[]`)
      .execute()
      // Sessions are ended even when the server's own database does not answer.
      .catch(() => null)
    return rows?.map(({ id }) => id) ?? names
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

  const sizes = createSizeCheck(dependencies)
  const every = (everyMs: number, name: string, work: (signal: AbortSignal) => Promise<void>) =>
    startPeriodic({ name, everyMs, work, logger })
  const checks = [
    every(locksEveryMs, 'limiting the locks of databases', () => checkLocks(dependencies)),
    every(loginsEveryMs, 'limiting logins to databases', () => checkLogins(dependencies)),
    every(
      connectionsEveryMs,
      'sharing the connections of databases',
      createConnectionCheck({ ...dependencies, idsOf }),
    ),
    every(sessionsEveryMs, 'limiting the sessions of databases', () => checkSessions({ ...dependencies, idsOf })),
    every(sizesEveryMs, 'limiting the size of databases', sizes.all),
    every(closedEveryMs, 'opening databases', createClosedCheck({ ...dependencies, reopen: reconciler.reopen })),
    every(restrictedEveryMs, 'limiting the growth of databases', sizes.restricted),
    every(settingsEveryMs, 'copying settings of roles', createSettingsCheck(dependencies)),
    every(limitsEveryMs, 'restoring the connection limits of databases', createConnectionLimitsCheck(dependencies)),
    every(snapshotsEveryMs, 'removing old snapshots', checkSnapshots),
  ]
  return {
    async stop() {
      await Promise.all(checks.map((check) => check.stop()))
      await sizes.ended()
    },
  }
}

async function checkLocks({ engine, logger }: Pick<ChecksDependencies, 'engine' | 'logger'>): Promise<void> {
  for (const oid of await engine.limitLocks(maxLocks)) {
    logger.warn({ oid, maxLocks }, 'sessions of a database were ended: they held too many locks')
  }
}

async function checkLogins({ engine, logger }: Pick<ChecksDependencies, 'engine' | 'logger'>): Promise<void> {
  const ended = await engine.limitLogins()
  if (ended > 0) logger.debug({ ended }, 'connections to databases were ended: they did not log in')
}
