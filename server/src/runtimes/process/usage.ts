import { familyOf, isRunning, readStat, ticksPerSecond } from '../../platform/processes.ts'
import type { Usage } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { memoryOf } from './confinement/memory-watch.ts'
import { type LocalInstance, unitOf } from './release/local-instance.ts'

/** Measures an instance by its control group, or by its processes where the group does not count. */
export async function usageOf(
  instance: LocalInstance,
  confinement: Pick<Confinement, 'usageOf' | 'processesOf'>,
): Promise<Usage> {
  if (!isRunning(instance)) return { memoryBytes: 0, cpuSeconds: 0, processes: 0 }
  const group = await confinement.usageOf(unitOf(instance))
  const members = await confinement.processesOf(unitOf(instance), 'app')
  // A group has all of them, and costs less to read.
  const pids = members.length > 0 ? members : await familyOf(instance.pid)
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
