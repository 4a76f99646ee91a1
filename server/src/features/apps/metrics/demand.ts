import type { AppTraffic } from '../../../gateway/client.ts'

/** Decides whether apps get so many requests that builds must leave a core to them. */
export interface Demand {
  /** Adds the gateway's counts since the last call. */
  count(traffic: readonly Pick<AppTraffic, 'requests'>[]): void
  /** True while all apps together get `leastPerSecond` or more, and for `keptMs` after that. */
  isHigh(): boolean
}

/** The requests per second to all apps below which builds on all cores delay only a hundredth of them. */
export const leastPerSecond = 5
export const keptMs = 30_000

/** @param now a clock in milliseconds */
export function createDemand(now: () => number = () => performance.now()): Demand {
  let countedAt: number | null = null
  let highAt = -Infinity
  return {
    count(traffic) {
      const at = now()
      const requests = traffic.reduce((sum, each) => sum + each.requests, 0)
      // The time of the first requests is unknown, because the gateway also counts while no server leads.
      if (countedAt !== null && requests > 0 && requests * 1000 >= leastPerSecond * (at - countedAt)) highAt = at
      countedAt = at
    },
    isHigh: () => now() - highAt < keptMs,
  }
}
