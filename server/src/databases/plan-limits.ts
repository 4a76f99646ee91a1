import type { Plan } from '../platform/plans.ts'
import type { Restriction } from './tables.ts'

export interface DatabaseLimits {
  /** Above this size the database is read-only. */
  readonly bytes: number
  /**
   * Above this size nobody can log in for some time after each growth. Only clients that switch read-only mode off can
   * reach it.
   */
  readonly ceilingBytes: number
  readonly connections: number
  /** PostgreSQL's `work_mem`: memory for each sort or hash of a statement. */
  readonly workMemoryMb: number
  /** PostgreSQL's `temp_file_limit`: temporary files of one session. */
  readonly temporaryMb: number
}

/** Derives the limits from a plan's `database_gb` and `memory_mb`; the plan may set the connections itself. */
export function databaseLimits({
  database_gb,
  memory_mb,
  database_connections,
}: Pick<Plan, 'database_gb' | 'memory_mb' | 'database_connections'>): DatabaseLimits {
  const bytes = Math.round(database_gb * 1e9)
  return {
    bytes,
    ceilingBytes: Math.round(bytes * 1.5),
    connections: database_connections ?? clamp(Math.round(10 * Math.sqrt(database_gb)), 10, 100),
    workMemoryMb: clamp(Math.floor(memory_mb / 128), 1, 32),
    temporaryMb: clamp(Math.round(database_gb * 100), 64, 10_000),
  }
}

/** A restriction is lifted at this share of the limit, so that a size near the limit does not toggle it. */
const hysteresis = 0.98

/** Returns the restriction for a size, with 2 % hysteresis. */
export function restrictionFor(sizeBytes: number, limits: DatabaseLimits, current: Restriction): Restriction {
  const ceiling = limits.ceilingBytes * (current === 'no_login' ? hysteresis : 1)
  const limit = limits.bytes * (current === 'none' ? 1 : hysteresis)
  if (sizeBytes > ceiling) return 'no_login'
  return sizeBytes > limit ? 'read_only' : 'none'
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value))
}
