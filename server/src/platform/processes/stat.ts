import { read } from './proc-files.ts'

/** Identifies a process so that it cannot be confused with a later one that has the same pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks since boot, as in /proc. */
  readonly startTime: string
}

export interface ProcessStat extends ProcessIdentity {
  /** Short name of the executable. */
  readonly command: string
  readonly parent: number
  readonly group: number
  readonly session: number
  /** The CPU time of the process and of the children that it has waited for, in clock ticks. */
  readonly cpuTicks: number
  /** True for a zombie: the process has ended, and its parent has not waited for it yet. */
  readonly ended: boolean
}

/** The size on x64 and on most arm64 systems. Where pages are larger, memory is counted too low. */
const PAGE_BYTES = 4096

/** Returns the start time of a process, also of a zombie; `null` when there is no such process. */
export function startTimeOf(pid: number): string | null {
  return readStat(pid)?.startTime ?? null
}

/** Returns the id of this start of the system; `null` where the system has none. Start times count from it. */
export function bootId(): string | null {
  return read('/proc/sys/kernel/random/boot_id')?.trim() ?? null
}

/** True when exactly this process exists and has not ended. */
export function isRunning(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid)
  return stat !== null && !stat.ended && stat.startTime === identity.startTime
}

/** Linux reports times to programs in hundredths of a second on every architecture that Node supports. */
export const ticksPerSecond = 100

/** Returns the time since boot, as in start times; 0 where the system does not tell. */
export function ticksSinceBoot(): number {
  return Math.round(Number.parseFloat(read('/proc/uptime') ?? '0') * ticksPerSecond)
}

/** Returns when a process began, from its start time; `null` where the system does not say when it was booted. */
export function dateOf(startTime: string): Date | null {
  const booted = /^btime (\d+)$/m.exec(read('/proc/stat') ?? '')?.[1]
  return booted === undefined ? null : new Date((Number(booted) + Number(startTime) / ticksPerSecond) * 1000)
}

/** Returns the effective uid of a process; `null` when the process is gone. */
export function userOf(pid: number): number | null {
  return uidsOf(pid)[1] ?? null
}

/** Returns the real, effective, saved and file system uid of a process; none when it is gone. */
export function uidsOf(pid: number): number[] {
  const line = /^Uid:\t(.*)$/m.exec(read(`/proc/${pid}/status`) ?? '')
  return line?.[1] === undefined ? [] : line[1].split('\t').map(Number)
}

/** Returns the bytes of memory that a process shares with no other; 0 when the process is gone. */
export function unsharedMemoryOf(pid: number): number {
  const [, resident = 0, shared = 0] = (read(`/proc/${pid}/statm`) ?? '').split(' ').map(Number)
  return (resident - shared) * PAGE_BYTES
}

export function readStat(pid: number): ProcessStat | null {
  const stat = parseStat(read(`/proc/${pid}/stat`) ?? '')
  return stat === null ? null : { pid, ...stat }
}

/**
 * Parses `/proc/<pid>/stat` (proc(5)). The command is in parentheses and may itself contain spaces and
 * parentheses.
 */
export function parseStat(text: string): Omit<ProcessStat, 'pid'> | null {
  const end = text.lastIndexOf(')')
  const [state, parent, group, session, ...rest] = text.slice(end + 2).split(' ')
  const startTime = rest[15]
  if (end < 0 || startTime === undefined) return null
  return {
    command: text.slice(text.indexOf('(') + 1, end),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    startTime,
    // Fields 14 to 17 (utime, stime, cutime and cstime); `rest` begins with field 7.
    cpuTicks: rest.slice(7, 11).reduce((sum, field) => sum + Number(field), 0),
    ended: state === 'Z' || state === 'X',
  }
}
