import type { AppTraffic } from '../../gateway/client.ts'

/** Tells whether apps are asked so often that builds have to leave them a core. */
export interface Demand {
  /** Adds what the gateway has counted since the last call. */
  count(traffic: readonly Pick<AppTraffic, 'requests'>[]): void
  /** True from then on when apps were asked that often, until they were not for half a minute. */
  isHigh(): boolean
}

/** The requests to all apps in a second. With fewer, builds on all cores hold up one request or two in a minute. */
export const leastPerSecond = 5
export const keptMs = 30_000

/** @param now the current time in milliseconds, from any beginning */
export function createDemand(now: () => number = () => performance.now()): Demand {
  let countedAt = now()
  let highAt = -Infinity
  return {
    count(traffic) {
      const at = now()
      const requests = traffic.reduce((sum, each) => sum + each.requests, 0)
      if (requests > 0 && requests * 1000 >= leastPerSecond * (at - countedAt)) highAt = at
      countedAt = at
    },
    isHigh: () => now() - highAt < keptMs,
  }
}
