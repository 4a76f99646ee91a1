import type { Selectable } from 'kysely'
import { notFound } from '../../../contract/errors.ts'
import type { ResponseBody } from '../../../contract/operations.ts'
import { addCounts, quantileOf } from '../../../gateway/client.ts'
import type { HandlersOf } from '../../../http/call.ts'
import type { Database, Transaction } from '../../../platform/database.ts'
import { bucketsUntil, type InstanceUsageRow, type MetricsTables, type Ring, ringOf, tablesOf } from './buckets.ts'

export interface MetricsReads {
  readonly database: Database
  /** Resolves to undefined when the project has no such app. */
  readonly findApp: (on: Database, projectId: string, appId: string) => Promise<unknown>
  readonly releasesSince: (appId: string, since: Date) => Promise<ResponseBody<'metrics.get'>['releases']>
}

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

/** Reads the latest measurement of an app's instances, which may include instances of other deployments. */
export async function latestUsage(
  on: Database | Transaction,
  appId: string,
): Promise<{ readonly at: Date; readonly instances: readonly InstanceUsageRow[] } | undefined> {
  return tablesOf(on).selectFrom('app_usage').select(['at', 'instances']).where('app_id', '=', appId).executeTakeFirst()
}

type Row = Omit<Selectable<MetricsTables['app_metrics']>, 'app_id' | 'slot' | 'seconds'>
type Body = ResponseBody<'metrics.get'>

/** Returns all buckets of a ring, oldest first, including buckets without data. */
export function metricsOf(ring: Ring, rows: readonly Row[], now: number): Pick<Body, 'points' | 'totals'> {
  const byTime = new Map(rows.map((row) => [row.began.getTime(), row]))
  const buckets = bucketsUntil(ring, now)
  const seen = buckets.flatMap((began) => byTime.get(began) ?? [])
  const sum = (of: (row: Row) => number): number => seen.reduce((total, row) => total + of(row), 0)
  const all = (of: (row: Row) => readonly string[]): number[] =>
    seen.reduce<number[]>((total, row) => addCounts(total, of(row).map(Number)), [])
  return {
    points: buckets.map((began) => pointOf(began, byTime.get(began))),
    totals: {
      requests: sum(({ requests }) => Number(requests)),
      ...statusesOf(all(({ answers }) => answers)),
      ...percentilesOf(all(({ times }) => times)),
      restarts: sum(({ restarts }) => restarts),
    },
  }
}

function pointOf(began: number, row: Row | undefined): Body['points'][number] {
  const number = (value: string | null | undefined): number | null => (value == null ? null : Number(value))
  return {
    at: new Date(began).toISOString(),
    requests: Number(row?.requests ?? 0),
    ...statusesOf((row?.answers ?? []).map(Number)),
    ...percentilesOf((row?.times ?? []).map(Number)),
    cpus:
      row === undefined || row.measured_seconds === 0 ? null : rounded(row.cpu_seconds / row.measured_seconds, 1000),
    cpu_limit: row?.cpu_limit ?? null,
    memory_bytes: number(row?.memory_bytes),
    memory_limit_bytes: number(row?.memory_limit_bytes),
    instances: row?.instances ?? null,
    restarts: row?.restarts ?? 0,
  }
}

const statusesOf = ([status_2xx = 0, status_3xx = 0, status_4xx = 0, status_5xx = 0]: readonly number[]) => ({
  status_2xx,
  status_3xx,
  status_4xx,
  status_5xx,
})

function percentilesOf(times: readonly number[]) {
  const percentile = (share: number): number | null => {
    const ms = quantileOf(times, share)
    return ms === null ? null : rounded(ms, 100)
  }
  return { p50_ms: percentile(0.5), p95_ms: percentile(0.95), p99_ms: percentile(0.99) }
}

const rounded = (value: number, parts: number): number => Math.round(value * parts) / parts
