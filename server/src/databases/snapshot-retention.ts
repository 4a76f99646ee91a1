import type { DatabaseLimits } from './plan-limits.ts'

/** Snapshots that are kept of one database. */
const maxSnapshots = 5
const maxAgeDays = 30

export interface RetainedSnapshot {
  readonly id: string
  readonly sizeBytes: number
  readonly createdAt: Date
}

/**
 * Returns the ids of the snapshots to remove: those beyond the count, those too old, and the oldest ones while all
 * together are larger than the database itself may be. The newest is always kept.
 *
 * @param snapshots newest first
 */
export function snapshotsToRemove(snapshots: readonly RetainedSnapshot[], limits: DatabaseLimits, now: Date): string[] {
  const oldest = now.getTime() - maxAgeDays * 86_400_000
  let bytes = 0
  return snapshots
    .filter(({ sizeBytes, createdAt }, index) => {
      bytes += sizeBytes
      return index > 0 && (index >= maxSnapshots || createdAt.getTime() < oldest || bytes > limits.bytes)
    })
    .map(({ id }) => id)
}
