import type { AppTraffic } from '../../gateway/client.ts'
import type { Database } from '../../platform/database.ts'
import {
  addMinutes,
  cpuTimesOf,
  emptyMinute,
  type InstanceUsage,
  type Minute,
  type UsedSince,
  usageByApp,
  usedSince,
} from './measured.ts'
import { bucketAt } from './rings.ts'
import { writeMinutes, writeUsage } from './write.ts'

/** Collects what apps use and are asked, and writes it now and then. The leader alone has one. */
export interface Metrics {
  /** Adds what the gateway has counted to the current minute. */
  count(traffic: readonly AppTraffic[]): void
  /** Notes that an instance of an app was started again. */
  noteRestart(appId: string): void
  /** Adds a measurement of all instances that live. */
  measure(instances: readonly InstanceUsage[]): void
  /** Writes what was collected. Rejects when it cannot be written: it is kept for the next call, an hour of it at most. */
  write(): Promise<void>
}

const minute = { seconds: 60 }
const keptMs = 3_600_000

/** @param clock the current time in milliseconds of Unix time */
export function createMetrics({
  database,
  clock = Date.now,
}: {
  readonly database: Database
  readonly clock?: () => number
}): Metrics {
  let waiting = new Map<string, Minute>()
  let usage: { readonly instances: readonly UsedSince[]; readonly seconds: number } | null = null
  let last: { readonly at: number; readonly cpuTimes: ReadonlyMap<string, number> } | null = null

  const add = (appId: string, seen: Partial<Minute>): void => {
    const began = bucketAt(minute, clock())
    join(waiting, { ...emptyMinute(appId, began), ...seen })
  }

  return {
    count(traffic) {
      for (const each of traffic) add(each.appId, { traffic: each })
    },

    noteRestart: (appId) => add(appId, { restarts: 1 }),

    measure(instances) {
      const at = performance.now()
      const seconds = last === null ? 0 : (at - last.at) / 1000
      usage = { instances: usedSince(last?.cpuTimes ?? new Map(), instances), seconds }
      for (const [appId, each] of usageByApp(usage.instances, seconds)) add(appId, { usage: each })
      last = { at, cpuTimes: cpuTimesOf(instances) }
    },

    async write() {
      const [batch, measured] = [waiting, usage]
      waiting = new Map()
      usage = null
      try {
        if (batch.size > 0) await writeMinutes(database, [...batch.values()])
      } catch (error) {
        const oldest = clock() - keptMs
        for (const each of waiting.values()) join(batch, each)
        waiting = new Map([...batch].filter(([, { began }]) => began >= oldest))
        throw error
      }
      if (measured !== null) await writeUsage(database, measured.instances, measured.seconds)
    },
  }
}

function join(minutes: Map<string, Minute>, seen: Minute): void {
  const key = `${seen.appId} ${seen.began}`
  const before = minutes.get(key)
  minutes.set(key, before === undefined ? seen : addMinutes(before, seen))
}
