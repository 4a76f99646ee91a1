/** This many failures in a row end an instance. */
export const failuresAllowed = 3
export const mostChecksPerSecond = 10

const everyMs = 10_000
/** One that has failed is asked again sooner. */
const failingMs = 5_000

/** Returns the failures in a row after a check, and whether the instance has to be started again. */
export function afterCheck(
  failuresBefore: number,
  isHealthy: boolean,
): { readonly failures: number; readonly isUnhealthy: boolean } {
  const failures = isHealthy ? 0 : failuresBefore + 1
  return { failures, isUnhealthy: failures >= failuresAllowed }
}

/**
 * Returns the time until the next check of an instance in milliseconds. Where there are many instances, all of them are asked
 * less often, so that the checks cost no more.
 */
export function nextCheckMs(failures: number, instances: number): number {
  const turnMs = (instances / mostChecksPerSecond) * 1_000
  return Math.max(failures === 0 ? everyMs : failingMs, turnMs)
}
