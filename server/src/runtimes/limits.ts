import type { Plan } from '../platform/plans.ts'

/** The resources that a build or an app may use, by the plan of its project. */
export interface Limits {
  readonly memoryBytes: number
  readonly cpus: number
}

/** Returns the limits of a project's plan. */
export function limitsOf({ memory_mb, cpus }: Pick<Plan, 'memory_mb' | 'cpus'>): Limits {
  return { memoryBytes: memory_mb * 1_000_000, cpus }
}

/** The limits that processes can run into, as in a deployment's `failure.code`. */
export const limitCodes = ['out_of_memory', 'too_many_processes'] as const
export type LimitCode = (typeof limitCodes)[number]

/** A limit that ended a build or an app. `allowed` is in bytes for memory, and a count for processes. */
export interface ExceededLimit {
  readonly code: LimitCode
  readonly allowed: number
}
