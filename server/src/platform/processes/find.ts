import { execFile } from 'node:child_process'
import { readFile, readlink } from 'node:fs/promises'
import { basename } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { bootId, list, parseStat, read, readLink, readStat, ticksPerSecond, uidsOf } from './stat.ts'

/** A variable in the environment of processes that belong together. */
export interface Marker {
  readonly name: string
  readonly value: string
  /**
   * Other users can set the same variable: their processes must not be taken for this user's, and must not delay their
   * end.
   */
  readonly uid?: number | undefined
}

/** Bounds a walk while some process forks without end. */
const MOST_ROUNDS = 10

/**
 * Visits all processes, including processes that begin during the walk, so that none escapes by forking an unlisted
 * child.
 */
export async function forEachProcess(visit: (pid: number) => void): Promise<void> {
  const pause = takingTurns()
  const visited = new Set<number>()
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const found = processIds().filter((pid) => !visited.has(pid))
    if (found.length === 0) return
    for (const pid of found) {
      visited.add(pid)
      visit(pid)
      await pause()
    }
  }
}

const processIds = (): number[] => (list('/proc') ?? []).map(Number).filter(Number.isInteger)

/** True when the environment of the process holds exactly `NAME=value`, and the process has the marker's user. */
export function isMarked(pid: number, { name, value, uid }: Marker): boolean {
  const environment = read(`/proc/${pid}/environ`)
  if (environment === null) return false
  const entry = Buffer.from(`${name}=${value}`).toString('latin1')
  const isNamed = environment.includes(entry) && environment.split('\0').includes(entry)
  return isNamed && (uid === undefined || uidsOf(pid).includes(uid))
}

/** Returns the pids of all processes that carry the marker, daemons included, in ascending order. */
export async function findProcesses(marker: Marker): Promise<number[]> {
  const found: number[] = []
  await forEachProcess((pid) => {
    if (isMarked(pid, marker)) found.push(pid)
  })
  return found.sort((a, b) => a - b)
}

/**
 * Returns the value of a variable in the environment of a process; `null` when the variable is not set, or the
 * environment cannot be read.
 */
export function variableOf(pid: number, name: string): string | null {
  return variablesOf(pid, [name])[0] ?? null
}

export function variablesOf(pid: number, names: readonly string[]): (string | null)[] {
  const environment = read(`/proc/${pid}/environ`)
  return names.map((name) => {
    // Nearly all processes of a machine have none of these variables.
    if (environment === null || !environment.includes(`${name}=`)) return null
    const entry = environment.split('\0').find((each) => each.startsWith(`${name}=`))
    return entry === undefined ? null : entry.slice(name.length + 1)
  })
}

export function controlGroupsOf(pid: number): string[] {
  const lines = (read(`/proc/${pid}/cgroup`) ?? '').split('\n').filter(Boolean)
  return lines.map((line) => line.split(':').slice(2).join(':'))
}

/** Groups all processes that have not ended by what `keyOf` returns for them; `null` leaves a process out. */
export async function groupProcesses(keyOf: (pid: number) => string | null): Promise<Map<string, number[]>> {
  const groups = new Map<string, number[]>()
  await forEachProcess((pid) => {
    const key = keyOf(pid)
    if (key === null || readStat(pid)?.ended !== false) return
    groups.set(key, [...(groups.get(key) ?? []), pid])
  })
  return groups
}

/** Returns the real, effective, saved and file system uids of all processes. */
export async function usersOfProcesses(): Promise<Set<number>> {
  const users = new Set<number>()
  await forEachProcess((pid) => {
    for (const uid of uidsOf(pid)) users.add(uid)
  })
  return users
}

/** Returns the process and its descendants. A descendant whose parent has ended is not found. */
export async function familyOf(pid: number): Promise<number[]> {
  const children = childPids(pid) === null ? await childrenFromTable() : childPids
  const family = new Set([pid])
  // The iteration of a set includes members that are added during it.
  for (const member of family) for (const child of children(member) ?? []) family.add(child)
  return [...family]
}

/**
 * Returns the pids of a process's children, thread by thread, and oldest first within a thread. Returns `null` when the
 * kernel does not list children (CONFIG_PROC_CHILDREN), or the process is gone.
 */
function childPids(pid: number): number[] | null {
  const threads = list(`/proc/${pid}/task`)
  const lists = threads?.map((thread) => read(`/proc/${pid}/task/${thread}/children`))
  if (lists === undefined || lists.every((text) => text === null)) return null
  return lists.flatMap((text) => (text ?? '').split(' ').filter(Boolean).map(Number))
}

async function childrenFromTable(): Promise<(pid: number) => number[]> {
  const children = new Map<number, number[]>()
  await forEachProcess((pid) => {
    const stat = readStat(pid)
    if (stat !== null) children.set(stat.parent, [...(children.get(stat.parent) ?? []), pid])
  })
  return (pid) => children.get(pid) ?? []
}

/** A walk over processes or their files blocks the event loop for at most this long. */
const sliceMs = 5

/**
 * Returns a function to await between the steps of a long walk. It yields to the event loop after each slice of time.
 */
export function takingTurns(): () => Promise<void> {
  let sliceEnd = performance.now() + sliceMs
  return async () => {
    if (performance.now() <= sliceEnd) return
    await nextTurn()
    sliceEnd = performance.now() + sliceMs
  }
}

export interface ChildProcess {
  readonly pid: number
  /** Its arguments, or the title that it gave itself. */
  readonly title: string
  readonly ageMs: number
}

/**
 * Returns the children of a process with one thread, oldest first. Returns none where the kernel does not list
 * children. Returns none when there are at most `ignored` children, to save the time to read each.
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

export interface ProcessInfo {
  readonly command: string
  readonly commandLine: string
  /** The working directory, or null where the system does not report it. */
  readonly directory: string | null
  /** An opaque text. Together with the pid it identifies a process, because pids are reused. */
  readonly startedAt: string
}

/** Returns facts about a process, or null when it is gone; a zombie counts as gone. */
export async function inspectProcess(pid: number): Promise<ProcessInfo | null> {
  return process.platform === 'linux' ? inspectThroughProc(pid) : inspectThroughPs(pid)
}

async function inspectThroughProc(pid: number): Promise<ProcessInfo | null> {
  try {
    const [status, commandLine, directory] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
      // Root in a container may lack the capability to read this link.
      readlink(`/proc/${pid}/cwd`).catch(() => null),
    ])
    const stat = parseStat(status)
    if (stat === null || stat.ended) return null
    return {
      command: stat.command,
      commandLine: commandLine.replaceAll('\0', ' ').trimEnd(),
      directory,
      startedAt: stat.startTime,
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return null
    throw error
  }
}

async function inspectThroughPs(pid: number): Promise<ProcessInfo | null> {
  const columns = ['-ww', '-o', 'state=,lstart=,ucomm=,args=', '-p', String(pid)]
  const { stdout } = await promisify(execFile)('ps', columns, { env: { LC_ALL: 'C' } }).catch((error) => {
    // ps exits with status 1 and prints nothing when there is no such process.
    if (error.code === 1 && error.stdout === '') return { stdout: '' }
    throw error
  })
  return parsePs(stdout)
}

/** Parses one line of `ps -o state=,lstart=,ucomm=,args=`. */
export function parsePs(line: string): ProcessInfo | null {
  const match = /^\s*(\S+)\s+(\S+\s+\S+\s+\d+\s+[\d:]+\s+\d+)\s+(\S+)\s+(.*)$/.exec(line.trimEnd())
  if (match === null) return null
  const [, state = '', startedAt = '', command = '', commandLine = ''] = match
  return state.startsWith('Z') ? null : { command: basename(command), commandLine, directory: null, startedAt }
}

/** True when the system knows the pid, zombies included. PostgreSQL checks the same. */
export function pidIsTaken(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/*
 * A trace names a process in a row of the database, so that another process on the same machine can tell whether it has
 * ended. Its form is `<boot id> <pid namespace> <pid> <start time>`: a pid is meaningless after a reboot, on another
 * machine or in another container.
 */

/*
 * A trace names a process in a row of the database, so that another process on the same machine can tell whether it has
 * ended. Its form is `<boot id> <pid namespace> <pid> <start time>`: a pid is meaningless after a reboot, on another
 * machine or in another container.
 */
export function traceOfThisProcess(): string | null {
  const place = thisPlace()
  const stat = readStat(process.pid)
  return place === null || stat === null ? null : `${place} ${stat.pid} ${stat.startTime}`
}

/** True when it is certain that the process of a trace has ended; false when it runs, or runs elsewhere. */
export function hasEnded(trace: string): boolean {
  const [boot, namespace, pid, startTime] = trace.split(' ')
  if (!/^[1-9]\d*$/.test(pid ?? '') || `${boot} ${namespace}` !== thisPlace()) return false
  if (!pidIsTaken(Number(pid))) return true
  // A pid in use proves nothing: /proc may hide the processes of other users.
  const stat = readStat(Number(pid))
  return stat !== null && (stat.ended || stat.startTime !== startTime)
}

function thisPlace(): string | null {
  const boot = bootId()
  const namespace = readLink('/proc/self/ns/pid')
  return boot === null || namespace === null ? null : `${boot} ${namespace}`
}
