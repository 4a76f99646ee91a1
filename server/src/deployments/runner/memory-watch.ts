import { familyOf, killAll, startTimeOf, unsharedMemoryOf } from '../../platform/processes.ts'

/** Holds groups of processes to their memory where the kernel does not. */
export interface MemoryWatch {
  /** Looks at the processes until told to leave off, and ends them all when together they have more than they may. */
  watch(
    name: string,
    target: {
      readonly leader: number
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
  return {
    watch(name, { leader, memoryBytes, listed }) {
      let busy = false
      const look = async (): Promise<void> => {
        const pids = new Set([...(await familyOf(leader)), ...(await listed())])
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
      return () => clearInterval(timer)
    },
    exceeded: (name) => over.has(name),
    forget(name) {
      over.delete(name)
    },
  }
}
