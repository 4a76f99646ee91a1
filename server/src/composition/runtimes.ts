import { createLogStore } from '../logs/file-log-store.ts'
import type { LogStore } from '../logs/log-store.ts'
import type { Caches } from '../platform/disk/caches.ts'
import { isRoot } from '../platform/startup/state.ts'
import { detectCapabilities } from '../runtimes/process/confinement/capabilities.ts'
import { createProcessRuntime } from '../runtimes/process/process-runtime.ts'
import { runtimeName } from '../runtimes/process/release/local-instance.ts'
import { preparePrograms } from '../runtimes/process/toolchain/programs.ts'
import { createRuntimes, type Runtimes } from '../runtimes/runtimes.ts'
import type { Composition } from './composition.ts'

/** The name of the runtime that builds and runs new releases. */
export const preferredRuntime: string = runtimeName

/**
 * Makes the runtimes that build and run releases.
 *
 * @param fence called right before they start, end or remove something; throws when another server leads
 */
export async function composeRuntimes(
  { config, logger, state: { directory }, stack }: Composition,
  caches: Caches,
  fence: () => void,
): Promise<Runtimes> {
  // The first uid and the last belong to PostgreSQL.
  const uids = isRoot() ? { from: config.uids.from, to: config.uids.to - 1 } : null
  const programs = await preparePrograms({
    runtime: directory.runtime,
    bin: directory.bin,
    user: uids === null ? null : { uid: uids.from + 1, gid: uids.from + 1 },
  })
  const host = await detectCapabilities({
    cgroups: config.cgroups,
    path: config.path,
    directory: directory.root,
    isRoot: isRoot(),
    programs: programs.paths,
  })
  stack.defer('control groups', async () => host.cgroups?.close())
  const runtime = createProcessRuntime({
    apps: directory.apps,
    uids,
    programs,
    buildEnvironment: config.deploys.environment,
    ports: config.deploys.releasePorts,
    host,
    caches,
    logger,
    fence,
  })
  const { warning, details } = runtime.capabilities
  if (warning !== null) logger.warn(warning)
  logger.info(details, 'isolation of builds and apps')
  return createRuntimes(runtime)
}

export function composeLogs({ state }: Pick<Composition, 'state'>): LogStore {
  return createLogStore({ directory: state.directory.logs })
}
