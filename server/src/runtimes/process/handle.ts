import { randomBytes } from 'node:crypto'
import { bootId, type ProcessIdentity } from '../../platform/processes.ts'
import type { Handle } from '../runtime.ts'

export const runtimeName = 'process'

/** A started release as it is found again on this machine, also by a later server. */
export interface LocalInstance {
  readonly releaseId: string
  /**
   * Tells it apart from other instances of its release, in the names of its group and its network; missing in handles of
   * older servers, which had one instance of a release.
   */
  readonly unit?: string
  readonly pid: number
  /** The kernel's start time of `pid` (clock ticks since boot), so that a reused pid is not taken for the app. */
  readonly startTime: string
  /** The start of the system that `startTime` counts from; missing in handles of older servers. */
  readonly boot?: string
  /** The port given to the app as `PORT`. */
  readonly port: number
  /** The port that it listens on and is served at; missing where that is `port`. */
  readonly servedPort?: number
  /** The IPv4 address of its own network; missing where it shares this machine's. */
  readonly address?: string
  /** The port of ::1 that leads into its own network, where `port` is the one of 127.0.0.1 that does. */
  readonly ipv6Port?: number
  /** The process that holds that network. */
  readonly holder?: ProcessIdentity
  /** The limit that it was started with; missing in handles of older servers. */
  readonly memoryBytes?: number
  /** Of the app's own user, where it has one; missing in handles of older servers. */
  readonly uid?: number
  /** Set for a static site, which has no process: its pid is 0. */
  readonly site?: LocalSite
}

/** A static site that is served. */
export interface LocalSite {
  /** Tells it apart from others of the same release. */
  readonly id: string
  /** The absolute path of its folder, without links. */
  readonly folder: string
  /** The file that holds the id while the site is served. */
  readonly record: string
  /** True when a page answers for paths without a file. */
  readonly fallback?: true
}

/** Returns the name of another instance of a release. */
export const newUnit = (releaseId: string): string => `${releaseId}+${randomBytes(5).toString('hex')}`

/** Returns the release of an instance's name: an instance that was started alone has that of its release. */
export const releaseOfUnit = (unit: string): string => unit.replace(/\+[\da-f]+$/, '')

export const unitOf = ({ unit, releaseId }: Pick<LocalInstance, 'unit' | 'releaseId'>): string => unit ?? releaseId

/** Stands for an instance without a process: no process ever has pid 0. */
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
  // No process has an empty one: after a power failure another may have the same pid and start time.
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
