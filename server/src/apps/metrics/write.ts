import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Minute, UsedSince } from './measured.ts'
import { bucketAt, rings, slotOf } from './rings.ts'
import type { InstanceUsageRow } from './tables.ts'

/** Adds minutes to the buckets of all rings: all of them, or none when it fails. Apps that are gone are left out. */
export async function writeMinutes(database: Database, minutes: readonly Minute[]): Promise<void> {
  // One statement may change a row once: the minutes go in one after the other, as they came. There are seldom two.
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
      answers: traffic.answers ?? [],
      times: traffic.times ?? [],
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
    insert into app_metrics as known (${columns})
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

/** The value that the bucket has; one of an earlier turn of the ring is dropped. */
const before = (column: string, none = 'null') =>
  sql.raw(`case when known.began = excluded.began then known.${column} else ${none} end`)

const addedUp = (column: string) =>
  sql.raw(`(
    select coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) order by place), '{}')
    from unnest(case when known.began = excluded.began then known.${column} else '{}' end, excluded.${column})
      with ordinality as pair (a, b, place)
  )`)

/** Replaces the latest measurement of the instances of each app. Apps that are gone are left out. */
export async function writeUsage(database: Database, measured: readonly UsedSince[], seconds: number): Promise<void> {
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
