import type { GroupLimits } from '../../platform/cgroups.ts'
import type { Plan } from '../../platform/plans.ts'

/** What of a release runs: one holds nothing of the other's. */
export type Kind = 'build' | 'app'

/** What a release may use. */
export interface Limits {
  readonly memoryBytes: number
  readonly cpus: number
}

/** What ran into a limit, for `failure.code`. */
export const limitCodes = ['out_of_memory', 'too_many_processes'] as const
export type LimitCode = (typeof limitCodes)[number]

/** Threads count: a Node has eleven, and `npm` with a bundler's workers on many cores some hundreds. */
export const mostProcesses = 512
/** Sockets of a busy app and its upstreams; Linux gives a plain process 1,024, which is few for a server. */
export const mostOpenFiles = 8_192
/** Tools that make an app need more than the app. */
const buildFactor = 2
/** Less than one CPU makes a build of a minute one of two; it gives way to the apps anyway. */
const leastBuildCpus = 1
/** Node sets about 600 MB aside without using them, and RLIMIT_DATA counts that. */
const asideBytes = 1_000_000_000

export function limitsOf({ memory_mb, cpus }: Pick<Plan, 'memory_mb' | 'cpus'>): Limits {
  return { memoryBytes: memory_mb * 1_000_000, cpus }
}

/** What the processes of a build, or of an app, may use together. */
export function groupLimits(limits: Limits, kind: Kind): GroupLimits {
  if (kind === 'app') return { ...limits, processes: mostProcesses, givesWay: false }
  return {
    memoryBytes: limits.memoryBytes * buildFactor,
    cpus: Math.max(leastBuildCpus, limits.cpus),
    processes: mostProcesses,
    givesWay: true,
  }
}

/**
 * The arguments of util-linux's `prlimit` for what each process may have by itself; with `ownUser` and without groups
 * also how many processes the user may have.
 */
export function prlimitArguments(
  limits: GroupLimits,
  options: { readonly groupsMemory: boolean; readonly groupsProcesses: boolean; readonly ownUser: boolean },
): string[] {
  return [
    '--core=0',
    `--nofile=${mostOpenFiles}`,
    ...(options.groupsMemory ? [] : [`--data=${limits.memoryBytes + asideBytes}`]),
    ...(options.groupsProcesses || !options.ownUser ? [] : [`--nproc=${limits.processes}`]),
  ]
}
