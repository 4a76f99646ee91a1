import type { Caches } from '../../platform/disk/caches.ts'
import type { Logger } from '../../platform/logger.ts'
import type { OsUser } from '../../platform/users.ts'
import type { FindBuilt } from '../built-release.ts'
import type { Release, Runtime } from '../runtime.ts'
import { createBuilder } from './builder.ts'
import { builtRelease } from './built.ts'
import { createChildren } from './children.ts'
import { createCommandStarter } from './commands.ts'
import { describeCapabilities, type HostCapabilities } from './confinement/capabilities.ts'
import { createConfinement } from './confinement/confinement.ts'
import { createInstances } from './instances.ts'
import { createPorts } from './network/ports.ts'
import { type LocalRelease, pathsOf } from './release/layout.ts'
import { runtimeName } from './release/local-instance.ts'
import type { ProcessMarks } from './release/marks.ts'
import { readOrigins } from './release/origins.ts'
import { createQuotas } from './release/quotas.ts'
import { createAppUsers, type UidRange } from './release/users.ts'
import { createReleaseStore } from './releases.ts'
import { createSites } from './sites/sites.ts'
import { hasTerminals } from './terminal/terminal.ts'
import type { Programs } from './toolchain/programs.ts'
import type { Toolchains } from './toolchain/toolchains.ts'

export interface ProcessRuntimeOptions {
  readonly apps: {
    /** Absolute path of the folder of all apps in the data directory. */
    readonly directory: string
    /** True where the server may set quotas of the file system. */
    readonly maySetQuotas: boolean
  }
  readonly users: {
    /** The uids that apps get when the server is root, both ends included; else `null`. */
    readonly apps: UidRange | null
    /** The user of the gateway, who reads the folders of static sites; `null` where that is the user of the server. */
    readonly siteReader: OsUser | null
  }
  readonly programs: Pick<Programs, 'node' | 'enter' | 'shared'> & { readonly toolchains: Toolchains }
  /** The operator's variables for builds, such as a registry, and the memory of each build. */
  readonly builds: { readonly environment: Readonly<Record<string, string>>; readonly memoryBytes: number }
  /** The ports that apps are given, both ends included; in a network of its own every app has the first. */
  readonly ports: { readonly from: number; readonly to: number }
  readonly host: HostCapabilities
  /** Locks the cache of an app while one of its builds runs. */
  readonly caches: Pick<Caches, 'use' | 'isInUse'>
  readonly marks: ProcessMarks
  readonly logger: Pick<Logger, 'info' | 'warn'>
  /**
   * Called right before something is started, ended or removed. Throws when this server must not do that any more: a
   * server that was stopped for a while may go on after another one has taken the releases over.
   */
  readonly fence: () => void
}

export interface ProcessRuntime extends Runtime {
  readonly findBuilt: FindBuilt
}

/**
 * Runs builds and apps as plain processes, each in a session of its own and as the app's user. The processes outlive the
 * server: their output goes straight into files, and a handle is all that a later server needs.
 */
export function createProcessRuntime(options: ProcessRuntimeOptions): ProcessRuntime {
  const { builds, host, caches, marks, logger, fence } = options
  const { directory: apps, maySetQuotas } = options.apps
  const { toolchains } = options.programs
  const confinement = createConfinement(host, { buildMemoryBytes: builds.memoryBytes, fence })
  const children = createChildren()
  const quotas = createQuotas(maySetQuotas, logger)
  const startCommand = createCommandStarter(options.programs, toolchains, marks, fence)
  const users = createAppUsers(apps, options.users.apps)
  const locate = async (release: Release): Promise<LocalRelease> => ({
    ...release,
    paths: pathsOf(apps, release),
    user: await users.of({ id: release.appId, number: release.appNumber }),
    origins: await readOrigins(pathsOf(apps, release)),
  })
  return {
    name: runtimeName,
    capabilities: {
      warning: confinement.warning,
      terminal: hasTerminals(),
      copies: confinement.showsFolders,
      details: describeCapabilities(host),
    },
    builder: createBuilder({
      ...{ apps, locate, caches, confinement, startCommand, toolchains, marks, quotas },
      buildEnvironment: builds.environment,
    }),
    instances: createInstances({
      locate,
      children,
      confinement,
      startCommand,
      marks,
      quotas,
      ports: createPorts(options.ports),
      portInside: options.ports.from,
      sites: createSites(options.users.siteReader, fence),
      logger,
    }),
    releases: createReleaseStore({ apps, children, confinement, marks, quotas }),
    images: null,
    async findBuilt(release) {
      const local = await locate(release)
      return builtRelease(local, options.programs.shared, await toolchains.programsOf(local.paths))
    },
  }
}
