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
   * Measures until the leader ends or the returned function is called. Ends all processes when together they exceed
   * their limit. Replaces an earlier watch of the name.
   */
  watch(name: string, target: WatchedProcesses): () => void
  /** Returns the bytes in use when the watch of this name ended the processes; `null` when it ended none. */
  exceeded(name: string): number | null
  forget(name: string): void
}

export interface WatchedProcesses {
  readonly leader: ProcessIdentity
  readonly memoryBytes: number
  /**
   * Lists all processes of the control group, also processes that do not descend from the leader; empty without a
   * group.
   */
  readonly listed: () => Promise<number[]> | number[]
}

export interface MemoryWatchOptions {
  /** Returns the memory of the machine; `null` when the system does not report it. */
  readonly machine: () => MachineMemory | null
  /** Returns the bytes that these processes use. May return any number above `enough` as soon as they use more. */
  readonly bytesOf: (pids: Iterable<number>, enough: number) => Promise<number> | number
}

/** Finds and ends a process within twice this time, in which it can fill some hundred megabytes. */
const intervalMs = 100
/**
 * The longest time between two measurements of the same processes. In between, they can reach their limit only if the
 * memory use of the whole machine grows by the rest of the limit. One look at the machine checks this for all of them.
 */
const longestMs = 30_000
/**
 * The longest time between two measurements while memory is scarce: memory that other processes free may hide growth.
 */
const longestInNeedMs = 2_000
/** Memory is scarce below this share. */
const shareInNeed = 0.1
/** Freed memory of other processes hides growth, so a measurement comes at half of the rest. */
const shareOfRest = 0.5

interface Watched {
  readonly target: WatchedProcesses
  readonly stop: () => void
  isBusy: boolean
  /** The time of the last measurement, by the clock of `performance.now()`. */
  measuredAt: number
  /** The lowest memory use of the machine since then. */
  floorBytes: number
  /** The growth above `floorBytes` that triggers a new measurement. */
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
    // Spreads the regular measurements, so that no look takes long.
    let mostOld = isInNeed ? watched.size : Math.ceil((watched.size * intervalMs) / longestMs)
    for (const [name, own] of watched) {
      own.floorBytes = Math.min(own.floorBytes, used)
      const isOld = now - own.measuredAt >= (isInNeed ? longestInNeedMs : longestMs)
      if (own.isBusy || !(mayHaveReached(own, used) || (isOld && mostOld-- > 0))) continue
      own.isBusy = true
      // The next interval tries again if a process could not be ended.
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

/** On a system that does not report its memory use, every look measures the processes. */
function stateOf(memory: MachineMemory | null): { readonly used: number; readonly isInNeed: boolean } {
  if (memory === null) return { used: Number.POSITIVE_INFINITY, isInNeed: false }
  return { used: memory.used, isInNeed: memory.available < memory.total * shareInNeed }
}

/** True when the memory use of the machine has grown enough for the processes to be near their limit. */
function mayHaveReached({ floorBytes, restBytes }: Watched, used: number): boolean {
  return used === Number.POSITIVE_INFINITY || used - floorBytes >= restBytes
}

/** Returns the bytes of memory that the processes do not share with other processes. */
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
  // The leaders would continue during the slow search for related processes.
  for (const { pid } of leaders) sendSignal(pid, 'SIGKILL')
  await killAll({ leaders }, { graceMs: 0 })
}
