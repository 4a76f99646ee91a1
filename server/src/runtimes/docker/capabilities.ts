import { stat } from 'node:fs/promises'
import type { DockerConfig } from '../../platform/config/deploys.ts'
import { freeBytesIn } from '../../platform/disk/free-space.ts'
import type { Finding } from '../../platform/finding.ts'
import type { Capabilities } from '../runtime.ts'
import { type Engine, type EngineVersion, whenBack } from './client.ts'
import { EngineError } from './errors.ts'

/** The engine's description, as far as Fairlead uses it. */
export interface EngineInfo {
  readonly Driver: string
  readonly CgroupVersion?: string
  readonly MemoryLimit: boolean
  readonly PidsLimit: boolean
  readonly CpuCfsQuota: boolean
  readonly SecurityOptions: readonly string[] | null
  readonly LiveRestoreEnabled: boolean
  /** The folder with the images and containers of the engine. */
  readonly DockerRootDir: string
}

type FoundEngine =
  | { readonly ok: true; readonly version: EngineVersion; readonly info: EngineInfo }
  /** `code` says why the connection failed, such as `ENOENT` or `EACCES`; null when the engine has answered. */
  | { readonly ok: false; readonly code: string | null; readonly reason: string }

/** Asks the engine for its description. Waits for an engine that is starting. */
export async function findEngine(engine: Engine, waitMs: number): Promise<FoundEngine> {
  try {
    const version = await whenBack(engine.version, waitMs)
    return { ok: true, version, info: await engine.call<EngineInfo>({ method: 'GET', path: ['info'] }) }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    return { ok: false, code: error.status === null ? error.detail : null, reason: error.message }
  }
}

/**
 * Makes a function that returns the free bytes on the engine's disk; null when it is also the disk of `folder`, or is
 * not accessible, as on another machine.
 */
export function createFreeOfEngine(engine: Pick<Engine, 'call'>, folder: string): () => Promise<number | null> {
  let known: string | null = null
  return async () => {
    try {
      known ??= (await engine.call<EngineInfo>({ method: 'GET', path: ['info'] })).DockerRootDir
      return await freeUnlessShared(known, folder)
    } catch {
      return null
    }
  }
}

/** Returns the free bytes on the disk of a folder; null when the other folder is on it, too. */
async function freeUnlessShared(directory: string, folder: string): Promise<number | null> {
  const [own, others] = await Promise.all([stat(directory), stat(folder)])
  return own.dev === others.dev ? null : freeBytesIn(directory)
}

export function engineCapabilities(found: FoundEngine): Capabilities {
  const common = { terminal: true, copies: true }
  if (!found.ok) return { ...common, warning: `Containers cannot be started: ${found.reason}.`, details: {} }
  const { version, info } = found
  const missing = [
    ...(info.MemoryLimit ? [] : ['their memory']),
    ...(info.PidsLimit ? [] : ['the number of their processes']),
    ...(info.CpuCfsQuota ? [] : ['their CPU time']),
    ...(hasSeccomp(info) ? [] : ['their system calls']),
  ]
  const warning =
    missing.length === 0 ? null : `Containers are not limited in ${missing.join(', ')}: run trusted ones alone.`
  const details = {
    engine: version.Version,
    api: version.api,
    storage: info.Driver,
    cgroups: info.CgroupVersion ?? '1',
    'live-restore': info.LiveRestoreEnabled,
  }
  return { ...common, warning, details }
}

/** The name of the profile reveals that the operator has disabled the filter. */
const hasSeccomp = ({ SecurityOptions }: EngineInfo): boolean =>
  (SecurityOptions ?? []).some((option) => option.startsWith('name=seccomp') && !option.endsWith('unconfined'))

const subject = 'containers'

export function engineFindings(found: FoundEngine, socket: string): Finding[] {
  if (!found.ok) return [{ subject, state: 'broken', found: `${socket}: ${found.reason}`, cost: adviceFor(found.code) }]
  const { version, info } = found
  const { warning } = engineCapabilities(found)
  const text = `Docker ${version.Version}, API ${version.api}, ${info.Driver}`
  const first: Finding =
    warning === null ? { subject, state: 'ok', found: text } : { subject, state: 'missing', found: text, cost: warning }
  const restarts: Finding = info.LiveRestoreEnabled
    ? { subject: 'live-restore', state: 'ok', found: 'containers go on while the Docker engine is started again' }
    : {
        subject: 'live-restore',
        state: 'missing',
        found: 'off',
        cost: 'all containers end when the Docker engine is stopped, also for its updates, and are started again after that. Set "live-restore": true in /etc/docker/daemon.json.',
      }
  return [first, restarts]
}

/**
 * Tells the operator the free space on the disk of the engine, unless it is the disk of the data directory.
 *
 * @param reserveBytes the minimum of free bytes for a deployment of an image
 */
export async function engineDiskFindings(
  found: FoundEngine,
  dataDirectory: string,
  reserveBytes: number,
): Promise<Finding[]> {
  if (!found.ok) return []
  const { DockerRootDir: root } = found.info
  const free = await freeUnlessShared(root, dataDirectory).catch(() => null)
  if (free === null) return []
  const about = { subject: 'disk of containers', found: `${Math.floor(free / 1_000_000)} MB free` }
  if (free >= reserveBytes) return [{ ...about, state: 'ok' }]
  const cost = `no image is deployed below ${reserveBytes / 1_000_000} MB (FAIRLEAD_RESERVE_MB). Make room for ${root}.`
  return [{ ...about, state: 'broken', cost }]
}

function adviceFor(code: string | null): string {
  if (code === 'EACCES')
    return 'the user of the server may not use it: add that user to the group docker, who is root by that.'
  if (code === 'ENOENT' || code === 'ECONNREFUSED') {
    return 'no image and no Dockerfile can be deployed: start Docker, or set FAIRLEAD_RUNTIME=process.'
  }
  return 'no image and no Dockerfile can be deployed.'
}

export function baseFindings({ alone }: Pick<DockerConfig, 'alone'>): Finding[] {
  if (alone === null) return []
  const subject = 'base of containers'
  if (alone.base !== null) return [{ subject, state: 'ok', found: `${alone.base} (FAIRLEAD_DOCKER_BASE)` }]
  const found = 'the programs of this machine, imported once for each state that they are in'
  return [{ subject, state: 'ok', found }]
}
