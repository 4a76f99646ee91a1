import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { constants } from 'node:os'

/** Identifies a process so that it cannot be confused with a later process that has the same pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks since boot, as in /proc. */
  readonly startTime: string
}

export interface ProcessStat extends ProcessIdentity {
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

/** Returns the id of the current boot; `null` where the system has none. Start times count from the boot. */
export function bootId(): string | null {
  return read('/proc/sys/kernel/random/boot_id')?.trim() ?? null
}

/** True when exactly this process exists and has not ended. */
export function isRunning(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid)
  return stat !== null && !stat.ended && stat.startTime === identity.startTime
}

/** Linux reports hundredths of a second on every architecture that Node supports. */
export const ticksPerSecond = 100

/** Returns when a process began, from its start time; `null` where the system does not say when it was booted. */
export function dateOf(startTime: string): Date | null {
  const booted = /^btime (\d+)$/m.exec(read('/proc/stat') ?? '')?.[1]
  return booted === undefined ? null : new Date((Number(booted) + Number(startTime) / ticksPerSecond) * 1000)
}

/** Returns the effective uid of a process; `null` when the process is gone. */
export function userOf(pid: number): number | null {
  return uidsOf(pid)[1] ?? null
}

/** Returns the real, effective, saved and file system uid of a process; an empty list when it is gone. */
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

/*
 * Reads of Linux's /proc (proc(5)). A process may vanish between any two reads; that is never an error, and the read
 * returns `null`. The reads are synchronous because /proc is in memory, not on a disk.
 *
 * A read that fails for lack of a descriptor says nothing about a process: if it counted as the end of the process, a
 * healthy app would be stopped. So one descriptor is reserved for these reads. When even this descriptor is
 * unavailable, they throw a `ShortageError`.
 */

export const read = (path: string): string | null => attempt(() => readFileSync(path, 'latin1'))
export const readLink = (path: string): string | null => attempt(() => readlinkSync(path))
export const list = (path: string): string[] | null => attempt(() => readdirSync(path))

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM']

/** `null` before the first read, and while none is available. */
let spare: number | null = null

function attempt<T>(look: () => T): T | null {
  spare ??= setAside()
  try {
    return look()
  } catch (error) {
    if (!isWant(error)) return null
  }
  if (spare !== null) closeSync(spare)
  spare = null
  try {
    return look()
  } catch (error) {
    if (isWant(error)) throw new ShortageError('/proc cannot be read now', { cause: error })
    return null
  } finally {
    spare = setAside()
  }
}

function setAside(): number | null {
  try {
    return openSync('/', 'r')
  } catch {
    return null
  }
}

const isWant = (error: unknown): boolean => error instanceof Error && 'code' in error && codes.includes(error.code)

/**
 * The machine cannot do something now that it can do at other times: it has no descriptors, processes, memory or disk
 * space left, or a program of the platform is missing. The app is not at fault, and the work is retried later.
 */
export class ShortageError extends Error {
  override readonly name = 'ShortageError'
}

const shortages: readonly unknown[] = ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM', 'ENOSPC', 'ENOBUFS']

/** True for errors that mean a shortage of resources on the machine, by the codes of errno(3). */
export function isShortage(error: unknown): boolean {
  if (error instanceof ShortageError) return true
  return error instanceof Error && 'code' in error && (shortages.includes(error.code) || isBeyondQuota(error))
}

/**
 * Returns an error handler for reads that decide whether something exists. It throws a shortage of the machine again,
 * because a shortage says nothing about what is read. Any other error means that nothing exists, and becomes `value`.
 */
export function unlessShort<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (isShortage(error)) throw error
    return value
  }
}

/** True for the error of a file system's quota (EDQUOT), for which Node has a number and no name. */
export function isBeyondQuota(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && error.errno === -constants.errno.EDQUOT
}

const closeOnExec = 0o2000000

/**
 * Closes the descriptors, except the standard ones, that this process has inherited. Node keeps only the first sixteen
 * from its children; the others would reach every app and build.
 */
export function closeInheritedDescriptors(): void {
  const open = (list('/proc/self/fd') ?? []).map(Number).filter((fd) => fd > 2)
  for (const fd of open) {
    const flags = /^flags:\s+([0-7]+)$/m.exec(read(`/proc/self/fdinfo/${fd}`) ?? '')?.[1]
    // Node's own descriptors are closed in its children.
    if (flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0) closeSync(fd)
  }
}

/** Returns the number of descriptors that this process may have open; infinity where the system does not tell. */
export const descriptorLimit = (): number => limitIn(/^Max open files\s+(\d+)/m)

/**
 * Returns the number of descriptors that this process may allow other processes; infinity where the system does not
 * tell.
 */
export const hardDescriptorLimit = (): number => limitIn(/^Max open files\s+\S+\s+(\d+)/m)

function limitIn(pattern: RegExp): number {
  const limit = pattern.exec(read('/proc/self/limits') ?? '')?.[1]
  return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit)
}
