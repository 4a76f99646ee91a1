import { bootId } from '../../../platform/processes.ts'
import type { Handle } from '../../runtime.ts'

export const runtimeName = 'process'

/** A started release as it is found again on this machine, also by a later server. */
export interface LocalInstance {
  readonly releaseId: string
  readonly pid: number
  /** The kernel's start time of `pid` (clock ticks since boot), so that a reused pid is not taken for the app. */
  readonly startTime: string
  /** The start of the system that `startTime` counts from; missing in handles of older servers. */
  readonly boot?: string
  /** The port given to the app as `PORT`. */
  readonly port: number
  /** The limit that it was started with; missing in handles of older servers. */
  readonly memoryBytes?: number
  /** Of the app's own user, where it has one; missing in handles of older servers. */
  readonly uid?: number
}

export function toHandle(instance: LocalInstance): Handle {
  return { runtime: runtimeName, data: { ...instance } }
}

/** @throws Error for the handle of another runtime */
export function fromHandle({ runtime, data }: Handle): LocalInstance {
  const { releaseId, pid, startTime, port, memoryBytes, uid, boot } = data
  if (runtime !== runtimeName || typeof releaseId !== 'string') {
    throw new Error(`the runtime ${runtimeName} was given a handle of the runtime ${runtime}`)
  }
  return {
    releaseId,
    pid: Number(pid),
    // No process has an empty one: after a power failure another may have the same pid and start time.
    startTime: boot === undefined || boot === bootId() ? String(startTime) : '',
    port: Number(port),
    ...(memoryBytes === undefined ? {} : { memoryBytes: Number(memoryBytes) }),
    ...(uid === undefined ? {} : { uid: Number(uid) }),
    ...(boot === undefined ? {} : { boot: String(boot) }),
  }
}
