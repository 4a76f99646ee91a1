import type { Plan } from '../platform/plans.ts'

export interface Limits {
  readonly memoryBytes: number
  readonly cpus: number
  /** The most disk space of an app: its release, its other folders and its volumes. */
  readonly diskBytes: number
}

export function limitsOf({ memory_mb, cpus, app_gb }: Pick<Plan, 'memory_mb' | 'cpus' | 'app_gb'>): Limits {
  return { memoryBytes: memory_mb * 1_000_000, cpus, diskBytes: Math.round(app_gb * 1e9) }
}

/** Threads count: Node has eleven, and `npm` with a bundler's workers on many cores has some hundreds. */
export const mostProcesses = 512
/** Enough for the sockets of a busy app and its upstreams; the default of Linux, 1,024, is low for a server. */
export const mostOpenFiles = 8_192
/** With less than one CPU, a build of one minute takes two. Builds yield to apps in any case. */
export const leastBuildCpus = 1

/**
 * The server, its database and the gateway have the score 0. Without memory, a machine loses a build before an app, and
 * an app before them. Git reads untrusted files, so it counts as a build.
 */
export const outOfMemoryScores = { build: 600, app: 500 } as const

/** The limits that processes can exceed, as in `failure.code` of a deployment. */
export const limitCodes = ['out_of_memory', 'too_many_processes'] as const
export type LimitCode = (typeof limitCodes)[number]

/** A limit that ended a build or an app: in bytes for memory, and a count for processes. */
export interface ExceededLimit {
  readonly code: LimitCode
  readonly allowed: number
  /** The highest observed value; `null` when unknown. */
  readonly used: number | null
}
