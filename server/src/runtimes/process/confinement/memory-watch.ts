import {
  familyOf,
  isRunning,
  killAll,
  type ProcessIdentity,
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
  /** True when the watch of this name has ended its processes. */
  exceeded(name: string): boolean
  forget(name: string): void
}

export interface WatchedProcesses {
  readonly leader: ProcessIdentity
  readonly memoryBytes: number
  /** Lists further processes, which need not descend from the leader. */
  readonly listed: () => Promise<number[]> | number[]
}

/** A process fills some hundred megabytes in this time; RLIMIT_DATA limits it meanwhile. */
const intervalMs = 200

export function createMemoryWatch(): MemoryWatch {
  const exceeded = new Set<string>()
  const stops = new Map<string, () => void>()
  return {
    watch(name, target) {
      stops.get(name)?.()
      let busy = false
      const stop = () => {
        clearInterval(timer)
        if (stops.get(name) === stop) stops.delete(name)
      }
      const check = async (): Promise<void> => {
        const pids = await processesOf(target)
        if (memoryOf(pids) <= target.memoryBytes) return
        exceeded.add(name)
        await kill(pids)
      }
      const timer = setInterval(() => {
        if (!isRunning(target.leader)) return stop()
        if (busy) return
        busy = true
        // A process that cannot be ended now is tried again at the next interval.
        void check()
          .catch(() => undefined)
          .finally(() => {
            busy = false
          })
      }, intervalMs)
      timer.unref()
      stops.set(name, stop)
      return stop
    },
    exceeded: (name) => exceeded.has(name),
    forget(name) {
      exceeded.delete(name)
    },
  }
}

/** Returns the bytes of memory that processes have for themselves alone. */
export const memoryOf = (pids: Iterable<number>): number =>
  [...pids].reduce((sum, pid) => sum + unsharedMemoryOf(pid), 0)

async function processesOf({ leader, listed }: WatchedProcesses): Promise<Set<number>> {
  return new Set([...(await familyOf(leader.pid)), ...(await listed())])
}

async function kill(pids: Iterable<number>): Promise<void> {
  const leaders = [...pids].flatMap((pid) => {
    const startTime = startTimeOf(pid)
    return startTime === null ? [] : [{ pid, startTime }]
  })
  await killAll({ leaders }, { graceMs: 0 })
}
