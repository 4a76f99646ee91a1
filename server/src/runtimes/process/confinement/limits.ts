import type { GroupLimits } from '../../../platform/cgroups.ts'
import {
  type ExceededLimit,
  type LimitCode,
  type Limits,
  leastBuildCpus,
  mostOpenFiles,
  mostProcesses,
} from '../../limits.ts'

/** Each part of a release has a control group. */
export const kinds = ['build', 'app'] as const
export type Kind = (typeof kinds)[number]

/**
 * Returns the limits of a whole build or a whole app.
 *
 * @param buildBytes the memory limit of each build: it is the same for all plans, because build tools need the same
 *   memory
 */
export function groupLimits(limits: Limits, kind: Kind, buildBytes: number): GroupLimits {
  if (kind === 'app') return { ...limits, processes: mostProcesses }
  const cpus = Math.max(leastBuildCpus, limits.cpus)
  return { memoryBytes: buildBytes, cpus, processes: mostProcesses }
}

/**
 * Returns an exceeded limit with its value.
 *
 * @param memory the allowed bytes, and the used bytes if known
 */
export function exceededLimit(
  code: LimitCode,
  memory: { readonly allowed: number; readonly used: number | null },
): ExceededLimit {
  return code === 'out_of_memory' ? { code, ...memory } : { code, allowed: mostProcesses, used: null }
}

/**
 * Returns the arguments for the `prlimit` program of util-linux, which limit each process separately. With `ownUser`
 * and without groups they also limit the processes of the user. They do not limit memory: `RLIMIT_DATA` and `RLIMIT_AS`
 * also count reserved addresses, some 540 MB for each thread of Node 24.
 */
export function prlimitArguments(options: {
  readonly groupsProcesses: boolean
  readonly ownUser: boolean
  /** This process's hard limit: it cannot allow another more. */
  readonly descriptors: number
}): string[] {
  return [
    '--core=0',
    `--nofile=${Math.min(mostOpenFiles, options.descriptors)}`,
    ...(options.groupsProcesses || !options.ownUser ? [] : [`--nproc=${mostProcesses}`]),
  ]
}
