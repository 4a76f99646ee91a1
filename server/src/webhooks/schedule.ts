const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** The wait before each attempt, from the first on. */
const waits = [
  0,
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
] as const

/** How far a wait may differ from the schedule, so that receivers that fail together are not asked together again. */
const jitter = 0.2

/**
 * Milliseconds to wait after `made` attempts that all failed; `undefined` when there is no further one.
 * `random` is a number from 0 to 1.
 */
export function waitAfter(made: number, random: number): number | undefined {
  const wait = waits[made]
  return wait === undefined ? undefined : Math.round(wait * (1 - jitter + 2 * jitter * random))
}
