import { pidIsTaken } from './inspect.ts'
import { readLink } from './proc-files.ts'
import { bootId, readStat } from './stat.ts'

/*
 * A trace names a process in a row of the database, so that another process on the same machine can tell whether it has
 * ended. Its form is `<boot id> <pid namespace> <pid> <start time>`: pids mean nothing after a reboot, on another machine
 * or in another container.
 */

/** Returns the trace of this process; `null` where /proc does not tell. */
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
  // A pid in use proves nothing by itself: /proc may hide the processes of other users.
  const stat = readStat(Number(pid))
  return stat !== null && (stat.ended || stat.startTime !== startTime)
}

function thisPlace(): string | null {
  const boot = bootId()
  const namespace = readLink('/proc/self/ns/pid')
  return boot === null || namespace === null ? null : `${boot} ${namespace}`
}
