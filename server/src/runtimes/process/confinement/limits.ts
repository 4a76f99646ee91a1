import type { GroupLimits } from '../../../platform/cgroups.ts'
import type { ExceededLimit, LimitCode, Limits } from '../../limits.ts'

/** The two parts of a release that run. Each has a resource group of its own. */
export type Kind = 'build' | 'app'

/** Threads count: a Node has eleven, and `npm` with a bundler's workers on many cores has some hundreds. */
export const mostProcesses = 512
/** Covers the sockets of a busy app and its upstreams; Linux's default of 1,024 is few for a server. */
const mostOpenFiles = 8_192
/** Tools that make an app need more than the app. */
const buildFactor = 2
/** With less than one CPU a build of a minute takes two; builds yield to the apps anyway. */
const leastBuildCpus = 1
/** Node reserves about 600 MB that it does not use, and RLIMIT_DATA counts them. */
const reservedBytes = 1_000_000_000

/** Returns the limits of all processes of a build, or of an app, together. */
export function groupLimits(limits: Limits, kind: Kind): GroupLimits {
  const memoryBytes = groupMemoryBytes(limits.memoryBytes, kind)
  if (kind === 'app') return { ...limits, memoryBytes, processes: mostProcesses, givesWay: false }
  return { memoryBytes, cpus: Math.max(leastBuildCpus, limits.cpus), processes: mostProcesses, givesWay: true }
}

/** @param planBytes the memory that the plan of the project allows */
const groupMemoryBytes = (planBytes: number, kind: Kind): number => planBytes * (kind === 'build' ? buildFactor : 1)

/** Returns a limit that was exceeded with its value. */
export function exceededLimit(code: LimitCode, kind: Kind, planBytes: number): ExceededLimit {
  return { code, allowed: code === 'out_of_memory' ? groupMemoryBytes(planBytes, kind) : mostProcesses }
}

/**
 * Returns the arguments of util-linux's `prlimit` that limit each process by itself; with `ownUser` and without groups
 * they also limit the processes of the user.
 */
export function prlimitArguments(
  limits: GroupLimits,
  options: { readonly groupsMemory: boolean; readonly groupsProcesses: boolean; readonly ownUser: boolean },
): string[] {
  return [
    '--core=0',
    `--nofile=${mostOpenFiles}`,
    ...(options.groupsMemory ? [] : [`--data=${limits.memoryBytes + reservedBytes}`]),
    ...(options.groupsProcesses || !options.ownUser ? [] : [`--nproc=${limits.processes}`]),
  ]
}
