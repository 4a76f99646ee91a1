import { sql } from 'kysely'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import { type Plans, planNamed } from '../../platform/plans.ts'
import { createSlots } from '../../platform/slots.ts'
import { activeLogins, rolesOf } from './credentials.ts'
import {
  type ConnectionLimit,
  databaseLimits,
  limitChanges,
  nextShrinking,
  restrictionFor,
  type Shrinking,
} from './limits.ts'
import { type Engine, type Instance, openInstanceOf } from './postgres/engine.ts'
import type { Sessions } from './postgres/sessions.ts'
import type { DatabaseReconciler } from './reconciler.ts'
import { createSettingsCheck } from './rotation.ts'
import type { DatabaseRow, DatabasesTables, Restriction } from './rows.ts'

const locksEveryMs = 1_000
const loginsEveryMs = 250
const connectionsEveryMs = 500
const sessionsEveryMs = 1_000
const sizesEveryMs = 10_000
const closedEveryMs = 10_000
const restrictedEveryMs = 1_000
const settingsEveryMs = 5_000
const snapshotsEveryMs = 60 * 60_000
const limitsEveryMs = 60 * 60_000

/**
 * All databases of a version share PostgreSQL's lock table, and PostgreSQL has no limit for a single database. If a
 * database holds more locks than this, its sessions are ended.
 */
const maxLocks = 20_000

type IdsOf = (names: readonly string[]) => Promise<readonly string[]>

interface ChecksDependencies {
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

/**
 * Returns a function that lowers the connection limits of databases while an instance is nearly full, ends their
 * sessions above the new limits, and restores the limits when there is room. `createConnectionLimitsCheck` restores
 * limits that an earlier server lowered.
 */
export function createConnectionCheck({
  engine,
  idsOf,
  logger,
}: {
  readonly engine: Pick<Engine, 'instances'>
  readonly idsOf: IdsOf
  readonly logger: Logger
}): (signal: AbortSignal) => Promise<void> {
  /** The former limits by database; each database is in one instance. */
  const lowered = new Map<Instance, Map<string, number>>()

  const lower = async (instance: Instance, { name, limit }: ConnectionLimit, signal: AbortSignal): Promise<void> => {
    try {
      await instance.roles.limitConnections(name, limit, signal)
    } finally {
      await instance.sessions.endSurplus(name, limit)
    }
  }

  const check = async (instance: Instance, signal: AbortSignal): Promise<void> => {
    const former = lowered.get(instance) ?? new Map<string, number>()
    lowered.set(instance, former)
    const { most, uses } = await instance.statistics.connectionUse([...former.keys()])
    const changes = limitChanges(uses, former, most)
    // A missing database was deleted.
    for (const name of former.keys()) if (!uses.some((use) => use.name === name)) former.delete(name)
    for (const { name, limit } of uses) {
      if (!former.has(name) && changes.lower.some((change) => change.name === name)) former.set(name, limit)
    }
    if (changes.lower.length > 0) {
      logger.warn(
        { databases: await idsOf(changes.lower.map(({ name }) => name)), most },
        'connections to databases run low: the databases with the most get fewer',
      )
    }
    await allSettled([
      ...changes.lower.map((change) => lower(instance, change, signal)),
      ...changes.raise.map(async ({ name, limit }) => {
        await instance.roles.limitConnections(name, limit, signal)
        former.delete(name)
      }),
    ])
  }

  return async (signal) => {
    const instances = [...engine.instances().values()].filter((instance) => instance !== null)
    await allSettled(instances.map((instance) => check(instance, signal)))
  }
}

/** Waits for all work, so that one database does not delay the others; then rejects with the first error. */
async function allSettled(work: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(work)
  await Promise.all(work)
}

const minute = 60
const hour = 60 * minute

const sessionLimits = { idleInTransaction: 30 * minute, transaction: 24 * hour, idle: 7 * 24 * hour }

/**
 * Sessions are ended when this share of the queue of notifications is in use. The queue has room for 8 GB on the disk,
 * or for what the settings of an embedded cluster allow.
 */
const fullQueue = 0.02

async function checkSessions({
  engine,
  idsOf,
  logger,
}: {
  readonly engine: Pick<Engine, 'instances'>
  readonly idsOf: IdsOf
  readonly logger: Logger
}): Promise<void> {
  await Promise.all(
    [...engine.instances().values()].map(async (instance) => {
      if (instance === null) return
      const { sessions } = instance
      const stale = await sessions.endStale(sessionLimits)
      if (stale.length > 0)
        logger.warn(
          { databases: await idsOf(stale), limits: sessionLimits },
          'sessions of databases were ended: they were idle',
        )
      await relieveQueue(sessions, idsOf, logger)
    }),
  )
}

async function relieveQueue(sessions: Sessions, idsOf: IdsOf, logger: Logger): Promise<void> {
  for (const all of [false, true]) {
    const usage = await sessions.notificationUsage()
    if (usage <= fullQueue) return
    const databases = await sessions.endNotificationHolders(all)
    const message = 'notifications of databases fill the queue: sessions that hold it back were ended'
    logger.warn({ usage, databases: await idsOf(databases) }, message)
    // The queue is freed a moment later; the next check continues.
    if (databases.length > 0) return
  }
}

interface SizeCheckDependencies {
  readonly database: Database
  readonly engine: Engine
  readonly plans: Plans
  readonly logger: Logger
  readonly reconciler: Pick<DatabaseReconciler, 'withLogins'>
}

interface SizeCheck {
  /** Begins to check all databases; slow databases do not delay the next check of other databases. */
  all(signal: AbortSignal): Promise<void>
  restricted(signal: AbortSignal): Promise<void>
  ended(): Promise<void>
}

/** The concurrent checks. A slow database delays other databases by no more than its own reads. */
const concurrency = 3

function createSizeCheck(dependencies: SizeCheckDependencies): SizeCheck {
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

/**
 * Returns a function that gives databases the connection limits of their plans: an earlier server may have lowered the
 * limits, or had other plans. Each call retries the databases that earlier calls could not reach.
 */
function createConnectionLimitsCheck({
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
