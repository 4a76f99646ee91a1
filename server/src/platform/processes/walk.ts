import { setImmediate as nextTurn } from 'node:timers/promises'
import { list, read } from './proc-files.ts'
import { readStat, uidsOf } from './stat.ts'

/** An environment variable that marks processes which belong together. */
export interface Marker {
  readonly name: string
  readonly value: string
  /**
   * Only processes of this uid count. Any user may set the variable for processes of its own: those must not be taken for
   * others' processes, and must not be able to delay the end of those.
   */
  readonly uid?: number | undefined
}

/** The longest time that a walk over all processes blocks the event loop. */
const SLICE_MS = 5
/** Bounds a walk while some process forks without end. */
const MOST_ROUNDS = 10

/**
 * Visits all processes, also those that begin during the walk, so that a process cannot escape by forking a child that was
 * not listed yet.
 */
export async function forEachProcess(visit: (pid: number) => void): Promise<void> {
  let sliceEnd = performance.now() + SLICE_MS
  const visited = new Set<number>()
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const found = processIds().filter((pid) => !visited.has(pid))
    if (found.length === 0) return
    for (const pid of found) {
      visited.add(pid)
      visit(pid)
      if (performance.now() > sliceEnd) {
        await nextTurn()
        sliceEnd = performance.now() + SLICE_MS
      }
    }
  }
}

const processIds = (): number[] => (list('/proc') ?? []).map(Number).filter(Number.isInteger)

/** True when the environment of the process holds exactly `NAME=value`, and the process has the marker's user. */
export function isMarked(pid: number, { name, value, uid }: Marker): boolean {
  const entry = Buffer.from(`${name}=${value}`).toString('latin1')
  const environment = read(`/proc/${pid}/environ`)
  const isNamed = environment?.includes(entry) === true && environment.split('\0').includes(entry)
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

/** Returns the value of a variable in the environment of a process; `null` when it has none, or cannot be read. */
export function variableOf(pid: number, name: string): string | null {
  const entry = read(`/proc/${pid}/environ`)
    ?.split('\0')
    .find((each) => each.startsWith(`${name}=`))
  return entry === undefined ? null : entry.slice(name.length + 1)
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

/** Returns the values that this variable has in the environments of all processes. */
export async function markedValues(name: string): Promise<Set<string>> {
  const values = new Set<string>()
  const start = `${name}=`
  await forEachProcess((pid) => {
    const entries = read(`/proc/${pid}/environ`)?.split('\0') ?? []
    for (const entry of entries) if (entry.startsWith(start)) values.add(entry.slice(start.length))
  })
  return values
}

/** Returns the process and its descendants. A descendant whose parent has ended is not found. */
export async function familyOf(pid: number): Promise<number[]> {
  const children = childrenOf(pid) === null ? await childrenFromTable() : childrenOf
  const family = new Set([pid])
  // The iteration of a set includes members that are added during it.
  for (const member of family) for (const child of children(member) ?? []) family.add(child)
  return [...family]
}

/** Returns `null` when the kernel does not list children (CONFIG_PROC_CHILDREN), or the process is gone. */
function childrenOf(pid: number): number[] | null {
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
