import { read } from './proc-files.ts'
import { readStat, ticksPerSecond } from './stat.ts'
import { childPids } from './walk.ts'

export interface ChildProcess {
  readonly pid: number
  /** Its arguments, or the title that it gave itself. */
  readonly title: string
  readonly ageMs: number
}

/**
 * Returns the children of a process of one thread, oldest first. Returns none where the kernel does not list them, or when
 * there are at most `ignored`, which saves the time to look at each.
 */
export function childrenOf(parent: number, ignored = 0): ChildProcess[] {
  const pids = childPids(parent) ?? []
  if (pids.length <= ignored) return []
  const uptimeMs = Number.parseFloat(read('/proc/uptime') ?? '0') * 1000
  return pids.flatMap((pid) => {
    const stat = readStat(pid)
    const title = read(`/proc/${pid}/cmdline`)?.replaceAll('\0', ' ').trim()
    if (stat === null || title === undefined || title === '') return []
    return [{ pid, title, ageMs: uptimeMs - (Number(stat.startTime) / ticksPerSecond) * 1000 }]
  })
}
