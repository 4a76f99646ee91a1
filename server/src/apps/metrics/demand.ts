import type { AppTraffic } from '../../gateway/client.ts'

/** Tells whether apps get so many requests that builds have to leave them a core. */
export interface Demand {
  /** Adds what the gateway has counted since the last call. */
  count(traffic: readonly Pick<AppTraffic, 'requests'>[]): void
  /** True while all apps together get `leastPerSecond` or more, and for `keptMs` after that. */
  isHigh(): boolean
}

/** The requests to all apps in a second. With fewer, builds on all cores hold up the slowest hundredth: some three in a minute. */
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
      // How long the first ones took is unknown: the gateway counts also while no server leads.
      if (countedAt !== null && requests > 0 && requests * 1000 >= leastPerSecond * (at - countedAt)) highAt = at
      countedAt = at
    },
    isHigh: () => now() - highAt < keptMs,
  }
}
