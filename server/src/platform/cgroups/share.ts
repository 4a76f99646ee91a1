/** The share that groups have of the CPU beside others: what these leave (`idle`), or a quarter of that of one of them (`low`). */
export type Share = 'idle' | 'low'

/** The CPU time that groups had together, and the time at which they had it; both in seconds. */
export interface CpuSample {
  readonly at: number
  /** `null` where the kernel does not count it. */
  readonly used: number | null
}

/** Groups that got less than this part of a core are helped. */
export const leastCores = 0.1

/**
 * Returns the share until the next sample. Groups that are idle get next to nothing while others use all cores, and would then never
 * come to their end: so they have a share whenever they got too little since the last sample, be it as idle groups or not. Where that
 * cannot be told, they always have it.
 *
 * @param last the sample before this one; `null` for the first
 */
export function shareAfter(last: CpuSample | null, now: CpuSample): Share {
  if (now.used === null) return 'low'
  if (last === null || last.used === null) return 'idle'
  return now.used - last.used < leastCores * (now.at - last.at) ? 'low' : 'idle'
}

/** A value of the share, to be written in this order. */
export interface ShareFile {
  readonly file: string
  readonly value: string
}

/**
 * Returns the files that set a share. The weight of a group that is idle cannot be set, and one that is idle no more has the usual one:
 * so the weight comes second. Linux before 5.15 has no `cpu.idle`; there groups have the low share alone.
 */
export function shareFiles(version: 1 | 2, share: Share): readonly ShareFile[] {
  const idle = { file: 'cpu.idle', value: share === 'idle' ? '1' : '0' }
  return [idle, version === 1 ? { file: 'cpu.shares', value: '256' } : { file: 'cpu.weight', value: '25' }]
}
