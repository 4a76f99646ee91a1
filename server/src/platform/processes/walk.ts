import { list, read } from './proc-files.ts'
import { readStat, uidsOf } from './stat.ts'
import { takingTurns } from './turns.ts'

/** An environment variable that marks processes which belong together. */
export interface Marker {
  readonly name: string
  readonly value: string
  /**
   * Only processes of this uid count. Any user may set the variable for processes of its own: those must not be taken for
   * others' processes, and must not be able to delay the end of those.
   */
  readonly uid?: number | undefined
  /** Only processes that began before this time count, in clock ticks since boot. */
  readonly before?: number
  /** Processes that carry this one count as well. */
  readonly or?: Marker
}

/** Bounds a walk while some process forks without end. */
const MOST_ROUNDS = 10

/**
 * Visits all processes, also those that begin during the walk, so that a process cannot escape by forking a child that was
 * not listed yet.
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

/** True when the environment of the process holds exactly `NAME=value`, and the process has the marker's user and age. */
export function isMarked(pid: number, marker: Marker): boolean {
  const environment = read(`/proc/${pid}/environ`)
  if (environment === null) return false
  for (let each: Marker | undefined = marker; each !== undefined; each = each.or) {
    const { name, value, uid, before = Number.POSITIVE_INFINITY } = each
    const entry = Buffer.from(`${name}=${value}`).toString('latin1')
    const isNamed = environment.includes(entry) && environment.split('\0').includes(entry)
    const isOld = before === Number.POSITIVE_INFINITY || Number(readStat(pid)?.startTime) < before
    if (isNamed && isOld && (uid === undefined || uidsOf(pid).includes(uid))) return true
  }
  return false
}

/** Returns the pids of all processes that carry the marker, daemons included, in ascending order. */
export async function findProcesses(marker: Marker): Promise<number[]> {
  const found: number[] = []
  await forEachProcess((pid) => {
    if (isMarked(pid, marker)) found.push(pid)
  })
  return found.sort((a, b) => a - b)
}

/** Returns the value of a variable in the environment of a process; `null` when it has none, or cannot be read. */
export function variableOf(pid: number, name: string): string | null {
  return variablesOf(pid, [name])[0] ?? null
}

/** Returns the values of several variables, as `variableOf` does. */
export function variablesOf(pid: number, names: readonly string[]): (string | null)[] {
  const environment = read(`/proc/${pid}/environ`)
  return names.map((name) => {
    // Nearly all processes of a machine have none of them.
    if (environment === null || !environment.includes(`${name}=`)) return null
    const entry = environment.split('\0').find((each) => each.startsWith(`${name}=`))
    return entry === undefined ? null : entry.slice(name.length + 1)
  })
}

/** Returns the paths of the control groups that a process is in. */
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
 * Returns the pids of a process's children, those of each of its threads oldest first. Returns `null` when the kernel does
 * not list children (CONFIG_PROC_CHILDREN), or the process is gone.
 */
export function childPids(pid: number): number[] | null {
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
