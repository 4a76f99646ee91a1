/** The least time between two measurements of what a step wrote. Each takes processor time that apps may need. */
const leastMs = 2_000
/**
 * A step is measured at least this often. In between, it can have reached its limit only if the free space of the disks has
 * fallen by what it had left.
 */
const longestMs = 10_000
/** Measuring a large tree takes long; it must not take more than a tenth of the time. */
const pauseFactor = 10
/** Others may free space at the same time, which hides growth: so the step is measured when the space fell by half of that. */
const shareOfRest = 0.5

/** A measurement of what a step wrote. All times in milliseconds, by one clock. */
export interface Measurement {
  readonly endedAt: number
  readonly tookMs: number
  /** The bytes that the step could still write. */
  readonly restBytes: number
}

/**
 * True when the step is to be measured again.
 *
 * @param last the measurement before
 * @param fellBytes how much the free space has fallen since then from the most that was seen
 */
export function measureIsDue({ endedAt, tookMs, restBytes }: Measurement, now: number, fellBytes: number): boolean {
  const passedMs = now - endedAt
  if (passedMs < Math.max(leastMs, pauseFactor * tookMs)) return false
  return passedMs >= longestMs || fellBytes >= restBytes * shareOfRest
}
