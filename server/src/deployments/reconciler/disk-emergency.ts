import { DeploymentError } from '../failure.ts'
import type { DeploymentRow } from '../tables.ts'

/** An app that has written less than this since the last round is not one that fills the disk. */
const leastGrowth = 1_000_000

/** The disk usage of a running app in this round and in the one before. */
export interface Measured {
  readonly row: DeploymentRow
  readonly bytes: number
  /** `undefined` when it was not measured before. */
  readonly before: number | undefined
}

/** The free space of the disk, and what it should not fall below. */
export interface Space {
  readonly freeBytes: number
  readonly reserveBytes: number
  readonly criticalBytes: number
}

/**
 * Returns the app to stop while less than the reserve is free: the one that has written the most since the last round. When
 * the disk is critically full and none writes, as none can, it is the largest one, if it holds more than the reserve.
 */
export function appToStop(apps: readonly Measured[], space: Space): DeploymentRow | undefined {
  if (space.freeBytes >= space.reserveBytes) return undefined
  const growth = ({ bytes, before = bytes }: Measured) => bytes - before
  const writer = apps.toSorted((one, other) => growth(other) - growth(one))[0]
  if (writer !== undefined && growth(writer) >= leastGrowth) return writer.row
  if (space.freeBytes >= space.criticalBytes) return undefined
  const largest = apps.toSorted((one, other) => other.bytes - one.bytes)[0]
  return largest !== undefined && largest.bytes > space.reserveBytes ? largest.row : undefined
}

/** Returns the failure of an app that was stopped because it fills the disk. */
export function diskFull(): DeploymentError {
  return new DeploymentError(
    'run',
    'no_space',
    'The app was stopped: the disk of the server is nearly full, and of all apps it wrote the most. HOME and TMPDIR stay ' +
      'as they are. Tell the operator of the server, and restart the app when there is room.',
  )
}
