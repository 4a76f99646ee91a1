import { readFile } from 'node:fs/promises'
import { familyOf, isRunning } from '../../platform/processes.ts'
import type { Usage } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { memoryOf } from './confinement/memory-watch.ts'
import type { LocalInstance } from './release/local-instance.ts'

/** Linux reports times to programs in hundredths of a second on every architecture that Node supports. */
const ticksPerSecond = 100

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
    cpuSeconds: group.cpuSeconds ?? (await cpuSecondsOf(pids)),
    processes: pids.length,
  }
}

async function cpuSecondsOf(pids: readonly number[]): Promise<number> {
  const each = await Promise.all(
    pids.map(async (pid) => cpuSecondsIn(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''))),
  )
  return each.reduce((sum, seconds) => sum + seconds, 0)
}

/**
 * Returns the CPU time of a process and its collected children by `/proc/<pid>/stat` (proc(5)). The command is in
 * parentheses and may itself contain spaces and parentheses. Returns 0 for a process that is gone.
 */
export function cpuSecondsIn(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  // Fields 14 to 17: utime, stime, cutime and cstime. The first of `fields` is number 3.
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
  return ticks / ticksPerSecond
}
