import type { GroupLimits } from '../../../platform/cgroups.ts'
import {
  type ExceededLimit,
  type LimitCode,
  type Limits,
  leastBuildCpus,
  mostOpenFiles,
  mostProcesses,
} from '../../limits.ts'

/** The two parts of a release that run. Each has a resource group of its own. */
export const kinds = ['build', 'app'] as const
export type Kind = (typeof kinds)[number]

/**
 * Returns the limits of all processes of a build, or of an app, together.
 *
 * @param buildBytes the memory of each build: its tools need what they need, whatever the plan allows the app
 */
export function groupLimits(limits: Limits, kind: Kind, buildBytes: number): GroupLimits {
  if (kind === 'app') return { ...limits, processes: mostProcesses }
  const cpus = Math.max(leastBuildCpus, limits.cpus)
  return { memoryBytes: buildBytes, cpus, processes: mostProcesses }
}

/**
 * Returns a limit that was exceeded with its value.
 *
 * @param memory the bytes that were allowed, and those that were used if that is known
 */
export function exceededLimit(
  code: LimitCode,
  memory: { readonly allowed: number; readonly used: number | null },
): ExceededLimit {
  return code === 'out_of_memory' ? { code, ...memory } : { code, allowed: mostProcesses, used: null }
}

/**
 * Returns the arguments of util-linux's `prlimit` that limit each process by itself; with `ownUser` and without groups
 * they also limit the processes of the user. They do not limit memory: `RLIMIT_DATA` and `RLIMIT_AS` count addresses that are
 * only reserved, some 540 MB for each thread of Node 24.
 */
export function prlimitArguments(options: {
  readonly groupsProcesses: boolean
  readonly ownUser: boolean
  /** The most descriptors that this process may allow another (its hard limit). */
  readonly descriptors: number
}): string[] {
  return [
    '--core=0',
    `--nofile=${Math.min(mostOpenFiles, options.descriptors)}`,
    ...(options.groupsProcesses || !options.ownUser ? [] : [`--nproc=${mostProcesses}`]),
  ]
}
