import type { Caches } from '../../platform/disk/caches.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Release, Runtime } from '../runtime.ts'
import { createBuilder } from './builder.ts'
import { createChildren } from './children.ts'
import { createCommandStarter } from './commands.ts'
import { describeCapabilities, type HostCapabilities } from './confinement/capabilities.ts'
import { createConfinement } from './confinement/confinement.ts'
import { createInstances } from './instances.ts'
import { createPorts } from './launch/ports.ts'
import { localRelease, type UidRange } from './release/layout.ts'
import { runtimeName } from './release/local-instance.ts'
import { createReleaseStore } from './releases.ts'
import type { Programs } from './toolchain/programs.ts'

export interface ProcessRuntimeOptions {
  /** Absolute path of the folder of all apps in the data directory. */
  readonly apps: string
  /** The uids that apps get when the server is root, both ends included; else `null`. */
  readonly uids: UidRange | null
  readonly programs: Pick<Programs, 'node' | 'bin'>
  /** The operator's variables for builds, such as a registry. */
  readonly buildEnvironment: Readonly<Record<string, string>>
  /** The ports that apps are given, both ends included. */
  readonly ports: { readonly from: number; readonly to: number }
  readonly host: HostCapabilities
  /** Locks the cache of an app while one of its builds runs. */
  readonly caches: Pick<Caches, 'use' | 'isInUse'>
  readonly logger: Pick<Logger, 'info'>
  /**
   * Called right before something is started, ended or removed. Throws when this server must not do that any more: a
   * server that was stopped for a while may go on after another one has taken the releases over.
   */
  readonly fence: () => void
}

/**
 * Runs builds and apps as plain processes, each in a session of its own and as the app's user. The processes outlive the
 * server: their output goes straight into files, and a handle is all that a later server needs.
 */
export function createProcessRuntime(options: ProcessRuntimeOptions): Runtime {
  const { apps, uids, buildEnvironment, host, caches, logger, fence } = options
  const confinement = createConfinement(host, fence)
  const children = createChildren()
  const startCommand = createCommandStarter(options.programs, fence)
  const locate = (release: Release) => localRelease(release, { apps, uids })
  return {
    name: runtimeName,
    capabilities: { warning: confinement.warning, terminal: false, details: describeCapabilities(host) },
    builder: createBuilder({ apps, locate, caches, confinement, startCommand, buildEnvironment }),
    instances: createInstances({
      locate,
      children,
      confinement,
      startCommand,
      ports: createPorts(options.ports),
      logger,
    }),
    releases: createReleaseStore({ apps, children, confinement }),
  }
}
