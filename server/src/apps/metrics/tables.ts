import type { JSONColumnType } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'

/** The latest measurement of an instance. */
export interface InstanceUsageRow {
  readonly deployment_id: string
  readonly name: string
  readonly memory_bytes: number
  /** On average since the measurement before; null for the first one. */
  readonly cpus: number | null
}

/** The tables of metrics. PostgreSQL's bigint arrives as text. */
export type MetricsTables = {
  /** Rings of buckets: a slot is overwritten after one turn of its ring. */
  app_metrics: {
    app_id: string
    /** The length of the bucket, which names its ring. */
    seconds: number
    slot: number
    /** The beginning of the bucket. */
    began: Date
    requests: string
    /** By the class of their status: 2xx, 3xx, 4xx and 5xx. */
    answers: string[]
    /** By ranges of time (`gateway/control/times.ts`). */
    times: string[]
    memory_bytes: string | null
    memory_limit_bytes: string | null
    cpu_seconds: number
    /** The time that `cpu_seconds` is of. */
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

/** These tables, inside a transaction or outside of one. */
export const tablesOf = (on: Database | Transaction) => on.withTables<MetricsTables>()
