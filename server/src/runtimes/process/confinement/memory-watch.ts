import {
  familyOf,
  isRunning,
  killAll,
  type ProcessIdentity,
  startTimeOf,
  unsharedMemoryOf,
} from '../../platform/processes.ts'

/** Holds groups of processes to their memory where the kernel does not. */
export interface MemoryWatch {
  /**
   * Looks at the processes until the leader has ended or it is told to leave off, and ends them all when together they
   * have more than they may. Whatever was watched under the same name before is not any more.
   */
  watch(
    name: string,
    target: {
      readonly leader: ProcessIdentity
      readonly memoryBytes: number
      /** The processes that are known besides the leader's children. */
      readonly listed: () => Promise<number[]> | number[]
    },
  ): () => void
  exceeded(name: string): boolean
  forget(name: string): void
}

/** A process fills some hundred megabytes in this time; RLIMIT_DATA holds it meanwhile. */
const intervalMs = 200

export function createMemoryWatch(): MemoryWatch {
  const over = new Set<string>()
  const leavingOff = new Map<string, () => void>()
  return {
    watch(name, { leader, memoryBytes, listed }) {
      leavingOff.get(name)?.()
      let busy = false
      const look = async (): Promise<void> => {
        const pids = new Set([...(await familyOf(leader.pid)), ...(await listed())])
        const bytes = [...pids].reduce((sum, pid) => sum + unsharedMemoryOf(pid), 0)
        if (bytes <= memoryBytes) return
        over.add(name)
        const leaders = [...pids].flatMap((pid) => {
          const startTime = startTimeOf(pid)
          return startTime === null ? [] : [{ pid, startTime }]
        })
        await killAll({ leaders }, { graceMs: 0 })
      }
      const timer = setInterval(() => {
        if (!isRunning(leader)) return leaveOff()
        if (busy) return
        busy = true
        // Whoever cannot be ended now is looked at again.
        void look()
          .catch(() => undefined)
          .finally(() => {
            busy = false
          })
      }, intervalMs)
      timer.unref()
      const leaveOff = () => {
        clearInterval(timer)
        if (leavingOff.get(name) === leaveOff) leavingOff.delete(name)
      }
      leavingOff.set(name, leaveOff)
      return leaveOff
    },
    exceeded: (name) => over.has(name),
    forget(name) {
      over.delete(name)
    },
  }
}
