import type { Plan } from '../platform/plans.ts'
import type { OverLimit } from './tables.ts'

/** What one database may take. */
export interface Limits {
  /** Above this it takes no writes. */
  readonly bytes: number
  /** Above this, which only a client reaches that undoes that on purpose, nobody logs in any more. */
  readonly ceilingBytes: number
  readonly connections: number
  /** PostgreSQL's `work_mem`: for each sort or hash of a statement. */
  readonly workMemoryMb: number
  /** Temporary files of one session. */
  readonly temporaryMb: number
}

/** The limits that follow from a plan's `database_gb` and `memory_mb`. */
export function limitsOf({ database_gb, memory_mb }: Pick<Plan, 'database_gb' | 'memory_mb'>): Limits {
  const bytes = Math.round(database_gb * 1e9)
  return {
    bytes,
    ceilingBytes: Math.round(bytes * 1.5),
    connections: clamp(Math.round(10 * Math.sqrt(database_gb)), 10, 100),
    workMemoryMb: clamp(Math.floor(memory_mb / 128), 1, 32),
    temporaryMb: clamp(Math.round(database_gb * 100), 64, 10_000),
  }
}

/** What a size costs. It is given back a little below the limit, so that a size on the limit does not flicker. */
export function overLimitFor(sizeBytes: number, limits: Limits, now: OverLimit): OverLimit {
  const margin = now === 'none' ? 1 : 0.98
  if (sizeBytes > limits.ceilingBytes * (now === 'closed' ? margin : 1)) return 'closed'
  return sizeBytes > limits.bytes * margin ? 'read_only' : 'none'
}

/** Snapshots of one database that are kept. */
const mostSnapshots = 5
const snapshotDays = 30

export interface KeptSnapshot {
  readonly id: string
  readonly sizeBytes: number
  readonly createdAt: Date
}

/**
 * The snapshots that must go: those beyond the count, those too old, and the oldest while all together take more than
 * the database itself may. The newest always stays.
 *
 * @param snapshots newest first
 */
export function snapshotsToDrop(snapshots: readonly KeptSnapshot[], limits: Limits, now: Date): string[] {
  const oldest = now.getTime() - snapshotDays * 86_400_000
  let bytes = 0
  return snapshots
    .filter(({ sizeBytes, createdAt }, index) => {
      bytes += sizeBytes
      return index > 0 && (index >= mostSnapshots || createdAt.getTime() < oldest || bytes > limits.bytes)
    })
    .map(({ id }) => id)
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value))
}
