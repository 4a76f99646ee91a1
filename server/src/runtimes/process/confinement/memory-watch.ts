import {
  familyOf,
  isRunning,
  killAll,
  type MachineMemory,
  machineMemory,
  memoryOfProcesses,
  type ProcessIdentity,
  sendSignal,
  startTimeOf,
  unsharedMemoryOf,
} from '../../../platform/processes.ts'

/** Enforces memory limits on groups of processes where the kernel does not. */
export interface MemoryWatch {
  /**
   * Measures the processes until the leader has ended or the returned function is called, and ends them all when
   * together they exceed their limit. Replaces an earlier watch of the same name.
   */
  watch(name: string, target: WatchedProcesses): () => void
  /** Returns the bytes that the processes had when the watch of this name ended them; `null` when it has not. */
  exceeded(name: string): number | null
  forget(name: string): void
}

export interface WatchedProcesses {
  readonly leader: ProcessIdentity
  readonly memoryBytes: number
  /** Lists all processes by their control group, also those that do not descend from the leader; none without a group. */
  readonly listed: () => Promise<number[]> | number[]
}

export interface MemoryWatchOptions {
  /** Returns the memory of the machine; `null` when the system does not say. */
  readonly machine: () => MachineMemory | null
  /** Returns the bytes that these processes use; some number above `enough` as soon as there are more. */
  readonly bytesOf: (pids: Iterable<number>, enough: number) => Promise<number> | number
}

/** A process is found and ended within twice this time, in which it can fill some hundred megabytes. */
const intervalMs = 100
/**
 * Processes are measured at least this often. In between, they can have reached their limit only if the memory in use on the
 * whole machine has grown by what they had left, which one look tells for all of them.
 */
const longestMs = 30_000
/** The longest pause while little memory is available: others that freed theirs may have hidden what one of them took. */
const longestInNeedMs = 2_000
/** Less of the machine's memory than this share is little. */
const shareInNeed = 0.1
/** Others may free memory at the same time, which hides growth: so the processes are measured when it is half of that. */
const shareOfRest = 0.5

interface Watched {
  readonly target: WatchedProcesses
  readonly stop: () => void
  isBusy: boolean
  /** By the clock of `performance.now()`. */
  measuredAt: number
  /** The least that the machine has used since then. */
  floorBytes: number
  /** The processes are measured again when the machine uses this much more than that. */
  restBytes: number
}

export function createMemoryWatch(
  { machine, bytesOf }: MemoryWatchOptions = { machine: machineMemory, bytesOf: memoryOfProcesses },
): MemoryWatch {
  const exceeded = new Map<string, number>()
  const watched = new Map<string, Watched>()
  let timer: NodeJS.Timeout | undefined

  const measure = async (name: string, own: Watched, used: number): Promise<void> => {
    const { target } = own
    if (!isRunning(target.leader)) return own.stop()
    const pids = await processesOf(target)
    const bytes = await bytesOf(pids, target.memoryBytes)
    own.measuredAt = performance.now()
    own.floorBytes = used
    own.restBytes = (target.memoryBytes - bytes) * shareOfRest
    if (bytes <= target.memoryBytes) return
    exceeded.set(name, Math.max(bytes, exceeded.get(name) ?? 0))
    await kill(pids)
  }

  const look = (): void => {
    const { used, isInNeed } = stateOf(machine())
    const now = performance.now()
    // Spread over the time, so that no look takes long.
    let mostOld = isInNeed ? watched.size : Math.ceil((watched.size * intervalMs) / longestMs)
    for (const [name, own] of watched) {
      own.floorBytes = Math.min(own.floorBytes, used)
      const isOld = now - own.measuredAt >= (isInNeed ? longestInNeedMs : longestMs)
      if (own.isBusy || !(mayHaveReached(own, used) || (isOld && mostOld-- > 0))) continue
      own.isBusy = true
      // A process that cannot be ended now is tried again at the next interval.
      void measure(name, own, used)
        .catch(() => undefined)
        .finally(() => {
          own.isBusy = false
        })
    }
  }

  return {
    watch(name, target) {
      watched.get(name)?.stop()
      const stop = () => {
        if (watched.get(name) === own) watched.delete(name)
        if (watched.size > 0) return
        clearInterval(timer)
        timer = undefined
      }
      const own: Watched = { target, stop, isBusy: false, measuredAt: 0, floorBytes: 0, restBytes: 0 }
      watched.set(name, own)
      timer ??= setInterval(look, intervalMs).unref()
      return stop
    },
    exceeded: (name) => exceeded.get(name) ?? null,
    forget(name) {
      exceeded.delete(name)
    },
  }
}

/** The processes are measured each time on a system that does not say what it uses. */
function stateOf(memory: MachineMemory | null): { readonly used: number; readonly isInNeed: boolean } {
  if (memory === null) return { used: Number.POSITIVE_INFINITY, isInNeed: false }
  return { used: memory.used, isInNeed: memory.available < memory.total * shareInNeed }
}

/** True when the machine's memory has grown enough for the processes to be near their limit. */
function mayHaveReached({ floorBytes, restBytes }: Watched, used: number): boolean {
  return used === Number.POSITIVE_INFINITY || used - floorBytes >= restBytes
}

/** Returns the bytes of memory that processes have for themselves alone. */
export function memoryOf(pids: Iterable<number>): number {
  return [...pids].reduce((sum, pid) => sum + unsharedMemoryOf(pid), 0)
}

async function processesOf({ leader, listed }: WatchedProcesses): Promise<readonly number[]> {
  const members = await listed()
  return members.length > 0 ? members : familyOf(leader.pid)
}

async function kill(pids: Iterable<number>): Promise<void> {
  const leaders = [...pids].flatMap((pid) => {
    const startTime = startTimeOf(pid)
    return startTime === null ? [] : [{ pid, startTime }]
  })
  // The search for all that belongs to them takes a while, in which they would go on.
  for (const { pid } of leaders) sendSignal(pid, 'SIGKILL')
  await killAll({ leaders }, { graceMs: 0 })
}
