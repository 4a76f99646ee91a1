import { randomBytes } from 'node:crypto'
import { bootId, type ProcessIdentity } from '../../platform/processes.ts'
import type { Handle } from '../runtime.ts'

export const runtimeName = 'process'

/** A started instance as stored in a handle, so that this server and later servers find it again on this machine. */
export interface LocalInstance {
  readonly releaseId: string
  /** Distinguishes a release's instances in the names of groups and networks; missing for a static site. */
  readonly unit?: string
  readonly pid: number
  /** The start time of `pid` in the kernel (clock ticks since boot). It reveals a reused pid. */
  readonly startTime: string
  /** The id of the boot that `startTime` counts from; missing where the system has none. */
  readonly boot?: string
  /** The port given to the app as `PORT`. */
  readonly port: number
  /** The port on which the app listens and is served; missing where it is `port`. */
  readonly servedPort?: number
  /** The IPv4 address of the network of the instance; missing when it shares the network of the machine. */
  readonly address?: string
  /** The port on ::1 that leads to the network of the instance; `port` is then the port on 127.0.0.1. */
  readonly ipv6Port?: number
  readonly holder?: ProcessIdentity
  /** The memory limit at the start; missing for a static site. */
  readonly memoryBytes?: number
  /** The uid of the user of the app, if it has one. */
  readonly uid?: number
  /** Set for a static site, which has no process: its pid is 0. */
  readonly site?: LocalSite
}

export interface LocalSite {
  readonly id: string
  /** The absolute path of its folder, without links. */
  readonly folder: string
  /** The file that contains the id while the site is served. */
  readonly record: string
  readonly fallback?: true
}

/** Returns a new name for an additional instance of a release. */
export const newUnit = (releaseId: string): string => `${releaseId}+${randomBytes(5).toString('hex')}`

/** Returns the release in the name of an instance. The only instance of a release has the name of the release. */
export const releaseOfUnit = (unit: string): string => unit.replace(/\+[\da-f]+$/, '')

export const unitOf = ({ unit, releaseId }: Pick<LocalInstance, 'unit' | 'releaseId'>): string => unit ?? releaseId

/** No process ever has pid 0. */
export const noProcess: ProcessIdentity = { pid: 0, startTime: '' }

export function toHandle({ site, holder, ...instance }: LocalInstance): Handle {
  const flat = site === undefined ? {} : flatSite(site)
  const held = holder === undefined ? {} : { holderPid: holder.pid, holderStartTime: holder.startTime }
  return { runtime: runtimeName, data: { ...instance, ...flat, ...held } }
}

const flatSite = ({ id, folder, record, fallback }: LocalSite) => ({
  site: id,
  folder,
  record,
  ...(fallback === undefined ? {} : { fallback: 1 }),
})

/** @throws Error for the handle of another runtime */
export function fromHandle({ runtime, data }: Handle): LocalInstance {
  const {
    releaseId,
    unit,
    pid,
    startTime,
    port,
    servedPort,
    memoryBytes,
    uid,
    boot,
    address,
    site,
    folder,
    record,
    ipv6Port,
    holderPid,
    holderStartTime,
    fallback,
  } = data
  if (runtime !== runtimeName || typeof releaseId !== 'string') {
    throw new Error(`the runtime ${runtimeName} was given a handle of the runtime ${runtime}`)
  }
  // No process has an empty start time. After a power failure another process may have the same pid and start time.
  const startOf = (time: unknown) => (boot === undefined || boot === bootId() ? String(time) : '')
  return {
    releaseId,
    ...(unit === undefined ? {} : { unit: String(unit) }),
    pid: Number(pid),
    startTime: startOf(startTime),
    port: Number(port),
    ...(servedPort === undefined ? {} : { servedPort: Number(servedPort) }),
    ...(address === undefined ? {} : { address: String(address) }),
    ...(ipv6Port === undefined ? {} : { ipv6Port: Number(ipv6Port) }),
    ...(holderPid === undefined ? {} : { holder: { pid: Number(holderPid), startTime: startOf(holderStartTime) } }),
    ...(memoryBytes === undefined ? {} : { memoryBytes: Number(memoryBytes) }),
    ...(uid === undefined ? {} : { uid: Number(uid) }),
    ...(boot === undefined ? {} : { boot: String(boot) }),
    ...(site === undefined
      ? {}
      : {
          site: {
            id: String(site),
            folder: String(folder),
            record: String(record),
            ...(fallback === undefined ? {} : { fallback: true as const }),
          },
        }),
  }
}
