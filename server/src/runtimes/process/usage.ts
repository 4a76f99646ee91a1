import { familyOf, isRunning, readStat, ticksPerSecond } from '../../platform/processes.ts'
import type { Usage } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { memoryOf } from './confinement/memory-watch.ts'
import type { LocalInstance } from './release/local-instance.ts'

/** Measures an instance by its control group, or by its processes where the group does not count. */
export async function usageOf(
  instance: LocalInstance,
  confinement: Pick<Confinement, 'usageOf' | 'processesOf'>,
): Promise<Usage> {
  if (!isRunning(instance)) return { memoryBytes: 0, cpuSeconds: 0, processes: 0 }
  const group = await confinement.usageOf(instance.releaseId)
  const members = await confinement.processesOf(instance.releaseId, 'app')
  const pids = [...new Set([...(await familyOf(instance.pid)), ...members])]
  return {
    memoryBytes: group.memoryBytes ?? memoryOf(pids),
    cpuSeconds: group.cpuSeconds ?? cpuSecondsOf(pids),
    processes: pids.length,
  }
}

/** Returns the CPU time of processes and of the children that they have waited for. */
function cpuSecondsOf(pids: readonly number[]): number {
  return pids.reduce((ticks, pid) => ticks + (readStat(pid)?.cpuTicks ?? 0), 0) / ticksPerSecond
}
