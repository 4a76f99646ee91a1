import { type AppTraffic, addTraffic } from '../../gateway/client.ts'

/** An instance that lives, and the resources that it may use. */
export interface InstanceUsage {
  readonly appId: string
  readonly deploymentId: string
  /** The process type and a number, such as `web.1`. */
  readonly name: string
  /** `null` for a static site, which has no process. */
  readonly used: {
    readonly memoryBytes: number
    /** Since the instance began; it may have begun anew since the last measurement. */
    readonly cpuSeconds: number
  } | null
  readonly limits: { readonly memoryBytes: number; readonly cpus: number }
}

/** The resources that the instances of an app have used together. */
export interface AppUsage {
  readonly instances: number
  /** `null` when none of them has a process. */
  readonly memoryBytes: number | null
  readonly memoryLimitBytes: number | null
  readonly cpuLimit: number | null
  /** Since the measurement before. */
  readonly cpuSeconds: number
  /** The time since then; 0 for the first measurement. */
  readonly seconds: number
}

/** Everything that was counted and measured of an app in one minute. */
export interface Minute {
  readonly appId: string
  /** Its beginning, in milliseconds of Unix time. */
  readonly began: number
  readonly traffic: AppTraffic
  readonly restarts: number
  readonly usage: AppUsage | null
}

export const emptyMinute = (appId: string, began: number): Minute => ({
  appId,
  began,
  traffic: { appId, requests: 0, errors: 0, answers: [], times: [] },
  restarts: 0,
  usage: null,
})

/** Adds up what was seen of the same app in the same minute. */
export function addMinutes(a: Minute, b: Minute): Minute {
  return {
    ...a,
    traffic: addTraffic(a.traffic, b.traffic),
    restarts: a.restarts + b.restarts,
    usage: a.usage === null || b.usage === null ? (a.usage ?? b.usage) : addUsage(a.usage, b.usage),
  }
}

/** Keeps the most memory and instances, and the latest limits. */
function addUsage(a: AppUsage, b: AppUsage): AppUsage {
  return {
    ...b,
    instances: Math.max(a.instances, b.instances),
    memoryBytes: a.memoryBytes === null ? b.memoryBytes : Math.max(a.memoryBytes, b.memoryBytes ?? 0),
    memoryLimitBytes: b.memoryLimitBytes ?? a.memoryLimitBytes,
    cpuLimit: b.cpuLimit ?? a.cpuLimit,
    cpuSeconds: a.cpuSeconds + b.cpuSeconds,
    seconds: a.seconds + b.seconds,
  }
}

/** The usage of an instance since the measurement before. */
export interface UsedSince extends InstanceUsage {
  readonly cpuSecondsSince: number
}

/**
 * Compares two measurements. One whose time runs from zero again was started again. An instance that was not measured before
 * counts nothing yet: it may be older than this leader, and what it used then was counted.
 *
 * @param before the CPU times of the measurement before, by the keys of instances
 */
export function usedSince(
  before: ReadonlyMap<string, number>,
  measured: readonly InstanceUsage[],
): readonly UsedSince[] {
  return measured.map((each) => {
    const now = each.used?.cpuSeconds ?? 0
    const then = before.get(keyOf(each)) ?? now
    return { ...each, cpuSecondsSince: now >= then ? now - then : now }
  })
}

export const cpuTimesOf = (measured: readonly InstanceUsage[]): ReadonlyMap<string, number> =>
  new Map(measured.map((each) => [keyOf(each), each.used?.cpuSeconds ?? 0]))

const keyOf = ({ deploymentId, name }: InstanceUsage): string => `${deploymentId} ${name}`

/** Adds up the instances of each app. */
export function usageByApp(measured: readonly UsedSince[], seconds: number): ReadonlyMap<string, AppUsage> {
  const byApp = Map.groupBy(measured, ({ appId }) => appId)
  return new Map([...byApp].map(([appId, instances]) => [appId, together(instances, seconds)]))
}

function together(instances: readonly UsedSince[], seconds: number): AppUsage {
  const processes = instances.filter(({ used }) => used !== null)
  const sum = (of: (each: UsedSince) => number): number | null =>
    processes.length === 0 ? null : processes.reduce((total, each) => total + of(each), 0)
  return {
    instances: instances.length,
    memoryBytes: sum(({ used }) => used?.memoryBytes ?? 0),
    memoryLimitBytes: sum(({ limits }) => limits.memoryBytes),
    cpuLimit: sum(({ limits }) => limits.cpus),
    cpuSeconds: sum(({ cpuSecondsSince }) => cpuSecondsSince) ?? 0,
    seconds,
  }
}
