import type { Plan } from '../platform/plans.ts'

/** The resources that a build or an app may use, by the plan of its project. */
export interface Limits {
  readonly memoryBytes: number
  readonly cpus: number
  /** The most that an app has on the disk: its release, its own folders and its volumes. */
  readonly diskBytes: number
}

/** Returns the limits of a project's plan. */
export function limitsOf({ memory_mb, cpus, app_gb }: Pick<Plan, 'memory_mb' | 'cpus' | 'app_gb'>): Limits {
  return { memoryBytes: memory_mb * 1_000_000, cpus, diskBytes: Math.round(app_gb * 1e9) }
}

/** Threads count: a Node has eleven, and `npm` with a bundler's workers on many cores has some hundreds. */
export const mostProcesses = 512
/** Covers the sockets of a busy app and its upstreams; Linux's default of 1,024 is few for a server. */
export const mostOpenFiles = 8_192
/** With less than one CPU a build of a minute takes two; builds yield to the apps anyway. */
export const leastBuildCpus = 1

/**
 * The server, its database and the gateway have 0. A machine that runs out of memory loses a build before an app, and an app before
 * any of these. Git, which reads what others have written, counts as a build.
 */
export const outOfMemoryScores = { build: 600, app: 500 } as const

/** The limits that processes can run into, as in a deployment's `failure.code`. */
export const limitCodes = ['out_of_memory', 'too_many_processes'] as const
export type LimitCode = (typeof limitCodes)[number]

/** A limit that ended a build or an app: in bytes for memory, and a count for processes. */
export interface ExceededLimit {
  readonly code: LimitCode
  readonly allowed: number
  /** The most that was seen; `null` where that is not known. */
  readonly used: number | null
}
