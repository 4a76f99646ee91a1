import type { JSONColumnType } from 'kysely'
import type { Database, Transaction } from '../../../platform/database.ts'

export type Range = '1h' | '24h' | '7d'

/** The stored buckets of each app: a fixed number of rows, each overwritten after one turn. */
export interface Ring {
  readonly range: Range
  /** The length of a bucket in seconds. */
  readonly seconds: number
  readonly buckets: number
}

export const rings: readonly Ring[] = [
  { range: '1h', seconds: 60, buckets: 60 },
  { range: '24h', seconds: 600, buckets: 144 },
  { range: '7d', seconds: 3600, buckets: 168 },
]

export function ringOf(range: Range): Ring {
  const ring = rings.find((each) => each.range === range)
  if (ring === undefined) throw new Error(`no ring of ${range}`)
  return ring
}

/** Returns the beginning of the bucket that contains a time, both in milliseconds of Unix time. */
export function bucketAt({ seconds }: Pick<Ring, 'seconds'>, at: number): number {
  return Math.floor(at / (seconds * 1000)) * seconds * 1000
}

export function slotOf({ seconds, buckets }: Ring, began: number): number {
  return (began / (seconds * 1000)) % buckets
}

/** Returns the beginnings of all buckets of a ring, oldest first; the last bucket is incomplete. */
export function bucketsUntil(ring: Ring, now: number): number[] {
  const last = bucketAt(ring, now)
  return Array.from({ length: ring.buckets }, (_, index) => last - (ring.buckets - 1 - index) * ring.seconds * 1000)
}

export interface InstanceUsageRow {
  readonly deployment_id: string
  readonly name: string
  readonly memory_bytes: number
  /** The average since the previous measurement; null for the first measurement. */
  readonly cpus: number | null
}

/** The tables of metrics. PostgreSQL's bigint arrives as text. */
export type MetricsTables = {
  /** Rings of buckets: a slot is overwritten after one turn of its ring. */
  app_metrics: {
    app_id: string
    seconds: number
    slot: number
    began: Date
    requests: string
    /** The counts by class of status: 2xx, 3xx, 4xx and 5xx. */
    answers: string[]
    /** The counts by range of response time (`gateway/protocol/latency.ts`). */
    times: string[]
    memory_bytes: string | null
    memory_limit_bytes: string | null
    cpu_seconds: number
    /** The seconds over which `cpu_seconds` was measured. */
    measured_seconds: number
    cpu_limit: number | null
    instances: number | null
    restarts: number
  }
  app_usage: {
    app_id: string
    at: Date
    instances: JSONColumnType<readonly InstanceUsageRow[]>
  }
}

export const tablesOf = (on: Database | Transaction) => on.withTables<MetricsTables>()
