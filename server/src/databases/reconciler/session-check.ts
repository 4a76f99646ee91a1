import type { Logger } from '../../platform/logger.ts'
import type { Engine } from '../engines/engine.ts'
import type { Sessions } from '../engines/sessions.ts'

/** Returns the ids of databases from their names in the engine. */
export type IdsOf = (names: readonly string[]) => Promise<readonly string[]>

const minute = 60
const hour = 60 * minute

const sessionLimits = { idleInTransaction: 30 * minute, transaction: 24 * hour, idle: 7 * 24 * hour }

/**
 * Sessions are ended when this share of the queue of notifications is in use. The queue has room for 8 GB on the disk,
 * or for what the settings of an embedded cluster allow.
 */
const fullQueue = 0.02

/** Ends users' sessions that hold back resources shared by all databases of an instance, and logs this. */
export async function checkSessions({
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
    // Ended sessions free the queue in a moment; the next check continues.
    if (databases.length > 0) return
  }
}
