import { sleepUntilAborted } from '../platform/abort.ts'
import { planNamed } from '../platform/plans.ts'
import { limitsOf, overLimitFor } from './limits.ts'
import type { DatabaseParts } from './parts.ts'
import type { DatabasesTables } from './tables.ts'
import type { DatabaseWork } from './work.ts'

const locksEveryMs = 1_000
const sizesEveryMs = 10_000
const snapshotsEveryMs = 60 * 60_000

/**
 * All databases of a version share PostgreSQL's table of locks, and nothing in PostgreSQL limits how much of it one may
 * take. Who holds more than this loses its sessions.
 */
const mostLocks = 20_000

export interface DatabaseWatch {
  stop(): Promise<void>
}

/** Looks again and again whether databases keep to their limits, and whether old snapshots must go. */
export function watchDatabases(parts: DatabaseParts, work: DatabaseWork): DatabaseWatch {
  const { engine, plans, logger } = parts
  const db = parts.database.withTables<DatabasesTables>()
  const stopping = new AbortController()

  const checkSizes = async (): Promise<void> => {
    const rows = await db
      .selectFrom('databases')
      .selectAll()
      .where('status', '=', 'available')
      .where('engine', '=', engine.name)
      .execute()
    for (const version of new Set(rows.map((row) => row.version))) {
      const here = rows.filter((row) => row.version === version)
      // Also brings up an engine that did not come up before.
      const instance = await engine.open(version, stopping.signal)
      const sizes = await instance.sizes(here.map(({ id }) => id))
      for (const row of here) {
        const size = sizes.get(row.id)
        if (size === undefined) continue
        const level = overLimitFor(size, limitsOf(planNamed(plans, row.plan)), row.over_limit)
        if (level === row.over_limit) continue
        await instance.restrict(row.id, level)
        await db
          .updateTable('databases')
          .set({ over_limit: level })
          .where('id', '=', row.id)
          .where('status', '=', 'available')
          .execute()
        logger.warn({ database: row.id, size, level }, 'the size of a database has crossed a limit')
      }
    }
  }

  const checkLocks = async (): Promise<void> => {
    // An operator's own server has an operator's own guards.
    if (engine.name !== 'embedded') return
    for (const version of await engine.versions()) {
      for (const oid of (await engine.running(version)?.endLockHogs(mostLocks)) ?? []) {
        logger.warn({ oid, mostLocks }, 'sessions of a database were ended: they held too many locks')
      }
    }
  }

  const checkSnapshots = async (): Promise<void> => {
    const rows = await db.selectFrom('snapshots').select('database_id as id').distinct().execute()
    for (const { id } of rows) await work.pruneSnapshots(id)
  }

  const every = async (ms: number, check: () => Promise<void>): Promise<void> => {
    while (!stopping.signal.aborted) {
      await check().catch((error: unknown) => {
        if (!stopping.signal.aborted) logger.warn({ err: error }, 'databases could not be checked')
      })
      await sleepUntilAborted(ms, stopping.signal)
    }
  }
  const running = [
    every(locksEveryMs, checkLocks),
    every(sizesEveryMs, checkSizes),
    every(snapshotsEveryMs, checkSnapshots),
  ]
  return {
    async stop() {
      stopping.abort()
      await Promise.all(running)
    },
  }
}
