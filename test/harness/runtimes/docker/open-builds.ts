import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openYielding, type Yielding } from '../../../../server/src/platform/cgroups.ts'
import type { AddressRange } from '../../../../server/src/platform/config.ts'
import { createCaches } from '../../../../server/src/platform/disk/caches.ts'
import type { Engine } from '../../../../server/src/runtimes/docker/client.ts'
import { createImageBuilds, type ImageBuilds } from '../../../../server/src/runtimes/docker/dockerfiles/image-builds.ts'
import { type FoundParts, findParts } from '../../../../server/src/runtimes/docker/dockerfiles/requirements.ts'
import type { Reach } from '../../../../server/src/runtimes/network/reach.ts'
import { findNetworkTools } from '../../../../server/src/runtimes/process/confinement/capabilities.ts'
import { placeOfBuilds, yieldingName } from '../../../../server/src/runtimes/process/confinement/groups.ts'
import { removeNetworks } from '../../../../server/src/runtimes/process/network/namespaces.ts'
import { type Networks, tryNetworks } from '../../../../server/src/runtimes/process/network/networks.ts'
import type { ReleaseRef } from '../../../../server/src/runtimes/runtime.ts'

/** The builds of a server of a data directory. Processes without a test runner can open them, too. */
export interface OpenBuilds extends AsyncDisposable {
  readonly builds: ImageBuilds
  /** The folder of the daemons' data. */
  readonly folder: string
  sourceOf(release: ReleaseRef): string
  /** Lists the control groups of builds. */
  groups(): Promise<string[]>
  /** Sets whether builds leave a core free from now on; initially they do not. */
  leaveCore(leaves: boolean): void
}

export interface OpenBuildsOptions {
  readonly directory: string
  readonly range: AddressRange
  readonly reach: Reach
  readonly memoryBytes: number
  readonly environment: Readonly<Record<string, string>>
  readonly bases: readonly string[]
}

/** Names the image of a release for the tests. */
export const imageOf = ({ id, appId }: Pick<ReleaseRef, 'id' | 'appId'>) => ({
  name: `fairlead/test:${id}`,
  labels: { 'app.fairlead.server': 'test', 'app.fairlead.app': appId, 'app.fairlead.release': id },
})

export type TestParts = FoundParts & { readonly yielding: Yielding | null }

export async function partsOf(
  directory: string,
  networks: Parameters<typeof findParts>[0]['networks'],
  environment: Readonly<Record<string, string>> = {},
  leavesCore = () => false,
): Promise<TestParts> {
  const place = await placeOfBuilds(null)
  const yielding = await openYielding(place, yieldingName(directory), {
    leavesCore,
    logger: { error: () => undefined },
  })
  const hierarchy = place?.hierarchy ?? null
  const found = await findParts({ isRoot: true, networks, hierarchy, yielding, environment, fence: () => undefined })
  return { ...found, yielding }
}

export async function openBuilds(engine: Engine, options: OpenBuildsOptions): Promise<OpenBuilds> {
  const { directory, range, reach, environment, bases, memoryBytes } = options
  const tools = await findNetworkTools()
  if (tools === null) throw new Error('no networks')
  const networks: Networks | string = await tryNetworks({ tools, dataDirectory: directory, range, reach })
  if (typeof networks === 'string') throw new Error(networks)
  const folder = join(directory, 'builds')
  let leaves = false
  const found = await partsOf(directory, networks, environment, () => leaves)
  const sourceOf = ({ id }: ReleaseRef) => join(directory, 'sources', id)
  await mkdir(join(directory, 'sources'), { recursive: true })
  const caches = createCaches({ mostEachBytes: 1e9, mostAllBytes: 1e10, list: async () => [] })
  const limits = { memoryBytes, cacheBytes: 1e9 }
  const builds = createImageBuilds({ folder, found, imageOf, sourceOf, environment, caches, engine, bases, limits })
  return {
    builds,
    folder,
    sourceOf,
    async groups() {
      const folders = new Set(Object.values(found.yielding?.hierarchy.folders ?? {}))
      const lists = [...folders].map((each) => readdir(join(each, 'dockerfiles'), { withFileTypes: true }))
      return (await Promise.all(lists)).flat().flatMap((each) => (each.isDirectory() ? [each.name] : []))
    },
    leaveCore(now) {
      leaves = now
    },
    async [Symbol.asyncDispose]() {
      if (found.ok) await found.parts.groups.sweep()
      await builds.close()
      await found.yielding?.close()
      await networks.close()
      await removeNetworks(tools, directory)
    },
  }
}
