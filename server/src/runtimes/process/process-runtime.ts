import type { Caches } from '../../platform/disk/caches.ts'
import type { Logger } from '../../platform/logger.ts'
import type { OsUser } from '../../platform/users.ts'
import type { Release, Runtime } from '../runtime.ts'
import type { BuiltRelease, FindBuilt } from '../runtimes.ts'
import { createBuilder, readOrigins } from './builder.ts'
import { describeCapabilities, type HostCapabilities } from './confinement/capabilities.ts'
import { createConfinement } from './confinement/confinement.ts'
import { runtimeName } from './handle.ts'
import { createChildren, createInstances } from './instances.ts'
import { createCommandStarter } from './launch.ts'
import type { ProcessMarks } from './marks.ts'
import { createPorts } from './network/ports.ts'
import { createQuotas } from './quotas.ts'
import { type LocalRelease, pathsOf } from './release-folders.ts'
import { createReleaseStore } from './releases.ts'
import { createSites } from './sites.ts'
import { hasTerminals } from './terminal/terminal.ts'
import type { Programs } from './toolchain/own-programs.ts'
import type { Toolchains } from './toolchain/toolchains.ts'
import { createAppUsers, type UidRange } from './users.ts'

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

/**
 * Returns what an image of a release is made of.
 *
 * @param shared the programs that all releases have
 * @param own the folder that comes first on its PATH, and those of programs that it asks for in other versions
 */
function builtRelease(
  { paths, user }: Pick<LocalRelease, 'paths' | 'user'>,
  shared: readonly string[],
  own: { readonly bin: string; readonly folders: readonly string[] },
): BuiltRelease {
  const { source, home, temporary, passwd, group } = paths
  return {
    place: { source, home, temporary, bin: own.bin },
    user: user ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    programs: [...new Set([...shared, own.bin, ...own.folders])],
    accounts: user === null ? null : { passwd, group },
  }
}
