import { sql } from 'kysely'
import type { ResponseBody } from '../../contract/operations.ts'
import type { AppTraffic } from '../../gateway/client.ts'
import type { Database } from '../../platform/database.ts'
import { tablesOf } from './tables.ts'

export interface Traffic {
  /**
   * Adds the requests since the last call to the current hour. If the counts cannot be written, the next call retries.
   */
  add(counted: readonly AppTraffic[]): Promise<void>
  /** Returns the last 24 hours of a project's apps, oldest first; the last hour is incomplete. */
  ofProject(projectId: string): Promise<ResponseBody<'projects.traffic'>>
  forget(): Promise<void>
}

interface Counted {
  readonly appId: string
  /** The beginning of the hour, in milliseconds of Unix time. */
  readonly hour: number
  readonly requests: number
  readonly errors: number
}

const hourMs = 3_600_000
const shownHours = 24
const keptHours = 3 * 24

export function createTraffic({ database }: { database: Database }): Traffic {
  const db = tablesOf(database)
  let waiting: readonly Counted[] = []

  return {
    async add(counted) {
      const hour = currentHour()
      waiting = joined([...waiting, ...counted.map((each) => ({ ...each, hour }))])
      if (waiting.length === 0) return
      const batch = waiting
      waiting = []
      try {
        await write(database, batch)
      } catch (error) {
        waiting = joined([...batch, ...waiting])
        throw error
      }
    },

    async ofProject(projectId) {
      const last = currentHour()
      const hours = Array.from({ length: shownHours }, (_, index) => last - (shownHours - 1 - index) * hourMs)
      const rows = await db
        .selectFrom('app_traffic')
        .innerJoin('apps', 'apps.id', 'app_traffic.app_id')
        .select([
          'hour',
          ({ fn }) => fn.sum<string>('requests').as('requests'),
          ({ fn }) => fn.sum<string>('errors').as('errors'),
        ])
        .where('project_id', '=', projectId)
        .where('hour', '>=', new Date(hours[0] ?? last))
        .groupBy('hour')
        .execute()
      const found = new Map(rows.map((row) => [row.hour.getTime(), row]))
      return {
        traffic: hours.map((hour) => ({
          hour: new Date(hour).toISOString(),
          requests: Number(found.get(hour)?.requests ?? 0),
          errors: Number(found.get(hour)?.errors ?? 0),
        })),
      }
    },

    async forget() {
      const oldest = new Date(currentHour() - keptHours * hourMs)
      await db.deleteFrom('app_traffic').where('hour', '<', oldest).execute()
    },
  }
}

const currentHour = (): number => Math.floor(Date.now() / hourMs) * hourMs

function joined(counted: readonly Counted[]): Counted[] {
  const all = new Map<string, Counted>()
  for (const each of counted) {
    const key = `${each.appId} ${each.hour}`
    const before = all.get(key)
    const requests = each.requests + (before?.requests ?? 0)
    const errors = each.errors + (before?.errors ?? 0)
    all.set(key, { ...each, requests, errors })
  }
  return [...all.values()]
}

async function write(database: Database, counted: readonly Counted[]): Promise<void> {
  const column = <Value>(pick: (each: Counted) => Value) => counted.map(pick)
  await sql`
    insert into app_traffic as stored (app_id, hour, requests, errors)
    select app_id, hour, requests, errors
    from unnest(
      ${column(({ appId }) => appId)}::text[],
      ${column(({ hour }) => new Date(hour).toISOString())}::timestamptz[],
      ${column(({ requests }) => requests)}::bigint[],
      ${column(({ errors }) => errors)}::bigint[]
    ) as counted (app_id, hour, requests, errors)
    where exists (select from apps where apps.id = counted.app_id)
    on conflict (app_id, hour) do update set
      requests = stored.requests + excluded.requests,
      errors = stored.errors + excluded.errors
  `.execute(database)
}
