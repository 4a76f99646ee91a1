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
    readonly directory: string
    readonly maySetQuotas: boolean
  }
  readonly users: {
    /** The range of uids for apps, both ends included, when the server is root; else `null`. */
    readonly apps: UidRange | null
    /** The user of the gateway, which reads the folders of static sites; `null` when it is the user of the server. */
    readonly siteReader: OsUser | null
  }
  readonly programs: Pick<Programs, 'node' | 'enter' | 'shared'> & { readonly toolchains: Toolchains }
  /** The operator's variables, such as a registry, and the memory limit of each build. */
  readonly builds: { readonly environment: Readonly<Record<string, string>>; readonly memoryBytes: number }
  /** The port range for apps, both ends included. Every app in a separate network has the first port. */
  readonly ports: { readonly from: number; readonly to: number }
  readonly host: HostCapabilities
  readonly caches: Pick<Caches, 'use' | 'isInUse'>
  readonly marks: ProcessMarks
  readonly logger: Pick<Logger, 'info' | 'warn'>
  /**
   * Called right before something is started, ended or removed. Throws when this server may no longer do so: a paused
   * server may continue after another server has taken over the releases.
   */
  readonly fence: () => void
}

export interface ProcessRuntime extends Runtime {
  readonly findBuilt: FindBuilt
}

/**
 * Runs builds and apps as plain processes, each in its own session and as the user of the app. The processes outlive
 * the server: they write their output directly to files, and a later server needs only the handle.
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
 * Returns the content for an image of a release.
 *
 * @param shared the programs of all releases
 * @param own the folder that comes first on the PATH of the release, and the folders of tools in other versions that
 *   the release uses
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
