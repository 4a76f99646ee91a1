import type { Controller } from './hierarchy.ts'

export interface GroupLimits {
  readonly memoryBytes: number
  readonly cpus: number
  /** Threads count, too. */
  readonly processes: number
}

/** The limit that a group has exceeded. */
export type Exceeded = 'memory' | 'processes'

const periodMicroseconds = 100_000

interface LimitFile {
  readonly controller: Controller
  readonly file: string
  readonly value: string
  /** True for files that kernels without swap accounting lack. */
  readonly optional?: true
}

/** Returns the files that set the limits of a new group and their values, in the order in which they must be written. */
export function limitFiles(version: 1 | 2, limits: GroupLimits): LimitFile[] {
  const { memoryBytes, cpus, processes } = limits
  const memory = String(memoryBytes)
  const quota = String(Math.max(1_000, Math.round(cpus * periodMicroseconds)))
  if (version === 1) {
    return [
      { controller: 'memory', file: 'memory.limit_in_bytes', value: memory },
      // Limits memory and swap together. It may not be lower than the limit of memory, so it comes second.
      { controller: 'memory', file: 'memory.memsw.limit_in_bytes', value: memory, optional: true },
      { controller: 'cpu', file: 'cpu.cfs_period_us', value: String(periodMicroseconds) },
      { controller: 'cpu', file: 'cpu.cfs_quota_us', value: quota },
      { controller: 'pids', file: 'pids.max', value: String(processes) },
    ]
  }
  return [
    { controller: 'memory', file: 'memory.max', value: memory },
    { controller: 'memory', file: 'memory.swap.max', value: '0', optional: true },
    { controller: 'cpu', file: 'cpu.max', value: `${quota} ${periodMicroseconds}` },
    { controller: 'pids', file: 'pids.max', value: String(processes) },
  ]
}

interface CounterFile {
  readonly controller: Controller
  readonly file: string
  /** The name of the counter in the file. */
  readonly name: string
  /** The limit that was exceeded when the counter is above 0. */
  readonly exceeded: Exceeded
}

/** Returns the files that count how often a group exceeded a limit. */
export function counterFiles(version: 1 | 2): CounterFile[] {
  const memoryFile = version === 1 ? 'memory.oom_control' : 'memory.events'
  return [
    { controller: 'memory', file: memoryFile, name: 'oom_kill', exceeded: 'memory' },
    { controller: 'pids', file: 'pids.events', name: 'max', exceeded: 'processes' },
  ]
}

/** Reads a counter from lines of `name value`; 0 when it is missing. */
export function counterIn(text: string, name: string): number {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}
