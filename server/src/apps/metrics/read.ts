import { notFound } from '../../contract/errors.ts'
import type { ResponseBody } from '../../contract/operations.ts'
import type { HandlersOf } from '../../http/call.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { bucketsUntil, type Ring, ringOf } from './rings.ts'
import { type InstanceUsageRow, tablesOf } from './tables.ts'
import { metricsOf } from './view.ts'

export interface MetricsReads {
  readonly database: Database
  /** Returns undefined unless the project has the app. */
  readonly findApp: (on: Database, projectId: string, appId: string) => Promise<unknown>
  /** The releases of an app that began to serve since then, oldest first. */
  readonly releasesSince: (appId: string, since: Date) => Promise<ResponseBody<'metrics.get'>['releases']>
}

/** The metrics of an app as its owner reads them. */
export function metricsHandlers({ database, findApp, releasesSince }: MetricsReads): HandlersOf<'metrics'> {
  return {
    async 'metrics.get'({ project, params, query }) {
      if ((await findApp(database, project.id, params.app_id)) === undefined) throw notFound()
      const ring = ringOf(query.range)
      const now = Date.now()
      const since = new Date(bucketsUntil(ring, now)[0] ?? now)
      const rows = await rowsOf(database, params.app_id, ring, since)
      const releases = await releasesSince(params.app_id, since)
      return { range: query.range, step_seconds: ring.seconds, ...metricsOf(ring, rows, now), releases }
    },
  }
}

const rowsOf = (database: Database, appId: string, { seconds }: Ring, since: Date) =>
  tablesOf(database)
    .selectFrom('app_metrics')
    .selectAll()
    .where('app_id', '=', appId)
    .where('seconds', '=', seconds)
    .where('began', '>=', since)
    .execute()

/** Reads the latest measurement of an app's instances; an instance of another deployment may be among them. */
export async function latestUsage(
  on: Database | Transaction,
  appId: string,
): Promise<{ readonly at: Date; readonly instances: readonly InstanceUsageRow[] } | undefined> {
  return tablesOf(on).selectFrom('app_usage').select(['at', 'instances']).where('app_id', '=', appId).executeTakeFirst()
}
