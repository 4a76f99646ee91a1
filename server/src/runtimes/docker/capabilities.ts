import { stat } from 'node:fs/promises'
import { freeBytesIn } from '../../platform/disk/free-space.ts'
import type { Capabilities } from '../runtime.ts'
import type { Engine, EngineVersion } from './engine/engine.ts'
import { EngineError } from './engine/error.ts'
import { whenBack } from './engine/patience.ts'

/** The parts of the engine's description of itself that are used. */
export interface EngineInfo {
  readonly Driver: string
  readonly CgroupVersion?: string
  readonly MemoryLimit: boolean
  readonly PidsLimit: boolean
  readonly CpuCfsQuota: boolean
  readonly SecurityOptions: readonly string[] | null
  readonly LiveRestoreEnabled: boolean
  /** The folder with its images and containers. */
  readonly DockerRootDir: string
}

export type FoundEngine =
  | { readonly ok: true; readonly version: EngineVersion; readonly info: EngineInfo }
  /** `code` is that of the failed connection, such as `ENOENT` and `EACCES`; null when the engine has answered. */
  | { readonly ok: false; readonly code: string | null; readonly reason: string }

/** Asks the engine what it is. One that is being started is waited for. */
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
 * Makes the function that returns the free bytes of the engine's disk; null where that is the one of another folder as well, or
 * cannot be looked at, as that of an engine on another machine.
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

/** Returns the free bytes of a folder's disk; null where another folder is on it, too. */
export async function freeUnlessShared(directory: string, folder: string): Promise<number | null> {
  const [own, others] = await Promise.all([stat(directory), stat(folder)])
  return own.dev === others.dev ? null : freeBytesIn(directory)
}

/** Describes what containers of an engine are protected from. */
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

/** An engine whose operator has turned the filter off says so in the name of its profile. */
const hasSeccomp = ({ SecurityOptions }: EngineInfo): boolean =>
  (SecurityOptions ?? []).some((option) => option.startsWith('name=seccomp') && !option.endsWith('unconfined'))
