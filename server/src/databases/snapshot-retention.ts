import type { DatabaseLimits } from './plan-limits.ts'

/** The snapshots that are kept of each database. */
const maxSnapshots = 5
const maxAgeDays = 30

export interface RetainedSnapshot {
  readonly id: string
  readonly sizeBytes: number
  readonly createdAt: Date
}

/**
 * Returns the ids of the snapshots to remove: snapshots beyond the count, snapshots that are too old, and the oldest
 * ones while all together exceed the allowed size of the database itself. The newest is always kept.
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
