import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { counterIn, type GroupFolders } from '../../../platform/cgroups.ts'

/** Measures of a control group; `null` where the kernel does not count them. */
export interface GroupUsage {
  readonly memoryBytes: number | null
  /** Since the group was made. */
  readonly cpuSeconds: number | null
}

/** Reads how much memory and CPU a group uses (the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst). */
export async function groupUsage(folders: GroupFolders, version: 1 | 2, name: string): Promise<GroupUsage> {
  const { memory, cpu } = folders
  return {
    memoryBytes: memory === undefined ? null : await memoryBytes(join(memory, name), version),
    cpuSeconds: cpu === undefined ? null : await cpuSeconds(join(cpu, name), version),
  }
}

/** Returns the most memory that a group has used, with cached files; `null` where the kernel does not say. */
export async function peakMemory({ memory }: GroupFolders, version: 1 | 2, name: string): Promise<number | null> {
  const file = version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak'
  const peak = memory === undefined ? null : await read(join(memory, name), file)
  return peak === null ? null : Number(peak)
}

/** Leaves out the pages of files that the kernel may drop at any time. */
async function memoryBytes(folder: string, version: 1 | 2): Promise<number | null> {
  const used = await read(folder, version === 1 ? 'memory.usage_in_bytes' : 'memory.current')
  const counters = await read(folder, 'memory.stat')
  if (used === null || counters === null) return null
  return Math.max(0, Number(used) - counterIn(counters, version === 1 ? 'total_inactive_file' : 'inactive_file'))
}

async function cpuSeconds(folder: string, version: 1 | 2): Promise<number | null> {
  if (version === 2) {
    const counters = await read(folder, 'cpu.stat')
    return counters === null ? null : counterIn(counters, 'usage_usec') / 1e6
  }
  // Counted by a controller of its own, which on most systems is mounted together with that of the CPU.
  const nanoseconds = await read(folder, 'cpuacct.usage')
  return nanoseconds === null ? null : Number(nanoseconds) / 1e9
}

const read = (folder: string, file: string): Promise<string | null> =>
  readFile(join(folder, file), 'utf8').catch(() => null)
