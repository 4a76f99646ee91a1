import type { Yielding } from '../../platform/cgroups.ts'
import type { Caches } from '../../platform/disk/caches.ts'
import { isRoot } from '../../platform/state.ts'
import type { Engine } from '../../runtimes/docker/client.ts'
import { createImageBuilds, type ImageBuilds } from '../../runtimes/docker/dockerfiles/image-builds.ts'
import { findParts } from '../../runtimes/docker/dockerfiles/requirements.ts'
import { imageOf, labelsOf } from '../../runtimes/docker/names.ts'
import { placeOfBuilds } from '../../runtimes/process/confinement/groups.ts'
import type { Networks } from '../../runtimes/process/network/networks.ts'
import { pathsOf } from '../../runtimes/process/release-folders.ts'
import type { Composition } from '../composition.ts'

/**
 * Creates the builder of Dockerfiles for the runtime of containers. Builds use the source folders and the network
 * access of the process runtime.
 *
 * @param runtime.server the id of the data directory, which labels images
 * @param runtime.networks null where the machine has none
 * @param runtime.yielding the place for control groups; null where control groups are impossible
 */
export async function composeImageBuilds(
  { config: { cgroups, deploys }, state: { directory }, stack }: Pick<Composition, 'config' | 'state' | 'stack'>,
  runtime: {
    readonly engine: Engine
    readonly server: string
    readonly networks: Networks | null
    readonly yielding: Yielding | null
  },
  caches: Caches,
  fence: () => void,
): Promise<ImageBuilds> {
  const { engine, server, networks, yielding } = runtime
  const { environment, baseImages: bases, buildMemoryBytes, mostEachCacheBytes } = deploys
  const found = await findParts({
    isRoot: isRoot(),
    networks,
    hierarchy: (await placeOfBuilds(cgroups))?.hierarchy ?? null,
    yielding,
    environment,
    fence,
  })
  if (found.ok) {
    fence()
    // A killed leader leaves its groups behind.
    await found.parts.groups.sweep()
  }
  const builds = createImageBuilds({
    folder: directory.imageBuilds,
    ...{ found, engine, environment, bases, caches },
    imageOf: (release) => ({ name: imageOf(server, release), labels: labelsOf(server, release) }),
    sourceOf: (release) => pathsOf(directory.apps, release).source,
    limits: { memoryBytes: buildMemoryBytes, cacheBytes: mostEachCacheBytes },
  })
  stack.defer('control groups of builds', () => builds.close())
  return builds
}
