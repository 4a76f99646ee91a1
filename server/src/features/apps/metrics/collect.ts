import { sql } from 'kysely'
import { type AppTraffic, addTraffic } from '../../../gateway/client.ts'
import type { Database, Transaction } from '../../../platform/database.ts'
import { bucketAt, type InstanceUsageRow, rings, slotOf } from './buckets.ts'

export interface Metrics {
  /** Adds the gateway's counts since the last call. */
  count(traffic: readonly AppTraffic[]): void
  noteRestart(appId: string): void
  measure(instances: readonly InstanceUsage[]): void
  /** Writes the collected data. Rejects when this fails; the next call then retries, with at most an hour of data. */
  write(): Promise<void>
}

const minute = { seconds: 60 }
const keptMs = 3_600_000

export function createMetrics({
  database,
  clock = Date.now,
}: {
  readonly database: Database
  readonly clock?: () => number
}): Metrics {
  let waiting = new Map<string, Minute>()
  let usage: { readonly instances: readonly UsedSince[]; readonly seconds: number } | null = null
  let last: { readonly at: number; readonly cpuTimes: ReadonlyMap<string, number> } | null = null

  const add = (appId: string, seen: Partial<Minute>): void => {
    const began = bucketAt(minute, clock())
    join(waiting, { ...emptyMinute(appId, began), ...seen })
  }

  return {
    count(traffic) {
      for (const each of traffic) add(each.appId, { traffic: each })
    },

    noteRestart: (appId) => add(appId, { restarts: 1 }),

    measure(instances) {
      const at = performance.now()
      const seconds = last === null ? 0 : (at - last.at) / 1000
      usage = { instances: usedSince(last?.cpuTimes ?? new Map(), instances), seconds }
      for (const [appId, each] of usageByApp(usage.instances, seconds)) add(appId, { usage: each })
      last = { at, cpuTimes: cpuTimesOf(instances) }
    },

    async write() {
      const [batch, measured] = [waiting, usage]
      waiting = new Map()
      usage = null
      try {
        if (batch.size > 0) await writeMinutes(database, [...batch.values()])
      } catch (error) {
        const oldest = clock() - keptMs
        for (const each of waiting.values()) join(batch, each)
        waiting = new Map([...batch].filter(([, { began }]) => began >= oldest))
        throw error
      }
      if (measured !== null) await writeUsage(database, measured.instances, measured.seconds)
    },
  }
}

function join(minutes: Map<string, Minute>, seen: Minute): void {
  const key = `${seen.appId} ${seen.began}`
  const before = minutes.get(key)
  minutes.set(key, before === undefined ? seen : addMinutes(before, seen))
}

export interface InstanceUsage {
  readonly appId: string
  readonly deploymentId: string
  /** The process type and a number, such as `web.1`. */
  readonly name: string
  /** `null` for a static site, which has no process. */
  readonly used: {
    readonly memoryBytes: number
    readonly cpuSeconds: number
  } | null
  readonly limits: { readonly memoryBytes: number; readonly cpus: number }
}

export interface AppUsage {
  readonly instances: number
  /** `null` when no instance has a process. */
  readonly memoryBytes: number | null
  readonly memoryLimitBytes: number | null
  readonly cpuLimit: number | null
  readonly cpuSeconds: number
  /** The seconds since the previous measurement; 0 for the first measurement. */
  readonly seconds: number
}

interface Minute {
  readonly appId: string
  /** The beginning of the minute, in milliseconds of Unix time. */
  readonly began: number
  readonly traffic: AppTraffic
  readonly restarts: number
  readonly usage: AppUsage | null
}

const emptyMinute = (appId: string, began: number): Minute => ({
  appId,
  began,
  traffic: { appId, requests: 0, errors: 0, answers: [], times: [] },
  restarts: 0,
  usage: null,
})

function addMinutes(a: Minute, b: Minute): Minute {
  return {
    ...a,
    traffic: addTraffic(a.traffic, b.traffic),
    restarts: a.restarts + b.restarts,
    usage: a.usage === null || b.usage === null ? (a.usage ?? b.usage) : addUsage(a.usage, b.usage),
  }
}

/** Keeps the maximum of memory and instances, and the latest limits. */
function addUsage(a: AppUsage, b: AppUsage): AppUsage {
  return {
    ...b,
    instances: Math.max(a.instances, b.instances),
    memoryBytes: a.memoryBytes === null ? b.memoryBytes : Math.max(a.memoryBytes, b.memoryBytes ?? 0),
    memoryLimitBytes: b.memoryLimitBytes ?? a.memoryLimitBytes,
    cpuLimit: b.cpuLimit ?? a.cpuLimit,
    cpuSeconds: a.cpuSeconds + b.cpuSeconds,
    seconds: a.seconds + b.seconds,
  }
}

interface UsedSince extends InstanceUsage {
  readonly cpuSecondsSince: number
}

/**
 * Compares two measurements. A CPU time below the previous time means a restart. An instance without a previous
 * measurement counts nothing yet: it may be older than this leader, and its earlier usage was counted.
 *
 * @param before the CPU times of the previous measurement, by instance key
 */
export function usedSince(
  before: ReadonlyMap<string, number>,
  measured: readonly InstanceUsage[],
): readonly UsedSince[] {
  return measured.map((each) => {
    const now = each.used?.cpuSeconds ?? 0
    const then = before.get(keyOf(each)) ?? now
    return { ...each, cpuSecondsSince: now >= then ? now - then : now }
  })
}

const cpuTimesOf = (measured: readonly InstanceUsage[]): ReadonlyMap<string, number> =>
  new Map(measured.map((each) => [keyOf(each), each.used?.cpuSeconds ?? 0]))

const keyOf = ({ deploymentId, name }: InstanceUsage): string => `${deploymentId} ${name}`

function usageByApp(measured: readonly UsedSince[], seconds: number): ReadonlyMap<string, AppUsage> {
  const byApp = Map.groupBy(measured, ({ appId }) => appId)
  return new Map([...byApp].map(([appId, instances]) => [appId, together(instances, seconds)]))
}

function together(instances: readonly UsedSince[], seconds: number): AppUsage {
  const processes = instances.filter(({ used }) => used !== null)
  const sum = (of: (each: UsedSince) => number): number | null =>
    processes.length === 0 ? null : processes.reduce((total, each) => total + of(each), 0)
  return {
    instances: instances.length,
    memoryBytes: sum(({ used }) => used?.memoryBytes ?? 0),
    memoryLimitBytes: sum(({ limits }) => limits.memoryBytes),
    cpuLimit: sum(({ limits }) => limits.cpus),
    cpuSeconds: sum(({ cpuSecondsSince }) => cpuSecondsSince) ?? 0,
    seconds,
  }
}

/** Adds minutes to the buckets of all rings in one transaction. Leaves out apps that are gone. */
async function writeMinutes(database: Database, minutes: readonly Minute[]): Promise<void> {
  // A statement may change a row only once, so minutes are written one after the other. There are seldom two.
  const byMinute = Map.groupBy(minutes, ({ began }) => began)
  await database.transaction().execute(async (transaction) => {
    for (const each of [...byMinute.keys()].sort((a, b) => a - b)) await writeAll(transaction, byMinute.get(each) ?? [])
  })
}

async function writeAll(transaction: Transaction, minutes: readonly Minute[]): Promise<void> {
  const rows = minutes.flatMap(({ appId, began, traffic, restarts, usage }) =>
    rings.map((ring) => ({
      app_id: appId,
      seconds: ring.seconds,
      slot: slotOf(ring, bucketAt(ring, began)),
      began: new Date(bucketAt(ring, began)).toISOString(),
      requests: traffic.requests,
      answers: traffic.answers,
      times: traffic.times,
      memory_bytes: usage?.memoryBytes ?? null,
      memory_limit_bytes: usage?.memoryLimitBytes ?? null,
      cpu_seconds: usage?.cpuSeconds ?? 0,
      measured_seconds: usage?.seconds ?? 0,
      cpu_limit: usage?.cpuLimit ?? null,
      instances: usage?.instances ?? null,
      restarts,
    })),
  )
  await sql`
    insert into app_metrics as stored (${columns})
    select ${columns}
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as counted (
      app_id text, seconds integer, slot integer, began timestamptz, requests bigint, answers bigint[], times bigint[],
      memory_bytes bigint, memory_limit_bytes bigint, cpu_seconds double precision, measured_seconds double precision,
      cpu_limit double precision, instances integer, restarts integer
    )
    where exists (select from apps where apps.id = counted.app_id)
    on conflict (app_id, seconds, slot) do update set
      began = excluded.began,
      requests = excluded.requests + ${before('requests', '0')},
      answers = ${addedUp('answers')},
      times = ${addedUp('times')},
      memory_bytes = greatest(excluded.memory_bytes, ${before('memory_bytes')}),
      memory_limit_bytes = coalesce(excluded.memory_limit_bytes, ${before('memory_limit_bytes')}),
      cpu_seconds = excluded.cpu_seconds + ${before('cpu_seconds', '0')},
      measured_seconds = excluded.measured_seconds + ${before('measured_seconds', '0')},
      cpu_limit = coalesce(excluded.cpu_limit, ${before('cpu_limit')}),
      instances = greatest(excluded.instances, ${before('instances')}),
      restarts = excluded.restarts + ${before('restarts', '0')}
  `.execute(transaction)
}

const columns = sql.raw(
  'app_id, seconds, slot, began, requests, answers, times, memory_bytes, memory_limit_bytes, cpu_seconds, ' +
    'measured_seconds, cpu_limit, instances, restarts',
)

/** The present value of the bucket; a value of an earlier turn of the ring is dropped. */
const before = (column: string, none = 'null') =>
  sql.raw(`case when stored.began = excluded.began then stored.${column} else ${none} end`)

const addedUp = (column: string) =>
  sql.raw(`(
    select coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) order by position), '{}')
    from unnest(case when stored.began = excluded.began then stored.${column} else '{}' end, excluded.${column})
      with ordinality as pair (a, b, position)
  )`)

/** Replaces the latest measurement of each app's instances. Leaves out apps that are gone. */
async function writeUsage(database: Database, measured: readonly UsedSince[], seconds: number): Promise<void> {
  const at = new Date().toISOString()
  const rows = [...Map.groupBy(measured, ({ appId }) => appId)].map(([app_id, instances]) => ({
    app_id,
    at,
    instances: instances.flatMap((each) => rowOf(each, seconds)),
  }))
  await sql`
    insert into app_usage (app_id, at, instances)
    select app_id, at, instances
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as measured (app_id text, at timestamptz, instances jsonb)
    where exists (select from apps where apps.id = measured.app_id)
    on conflict (app_id) do update set at = excluded.at, instances = excluded.instances
  `.execute(database)
}

function rowOf({ deploymentId, name, used, cpuSecondsSince }: UsedSince, seconds: number): InstanceUsageRow[] {
  if (used === null) return []
  const cpus = seconds === 0 ? null : Math.round((cpuSecondsSince / seconds) * 1000) / 1000
  return [{ deployment_id: deploymentId, name, memory_bytes: Math.round(used.memoryBytes), cpus }]
}
