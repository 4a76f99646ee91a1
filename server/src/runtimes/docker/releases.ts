import { join } from 'node:path'
import { removeFolder } from '../../platform/disk/folders.ts'
import { sizeOf } from '../../platform/disk/tree-size.ts'
import { volumesIn } from '../../platform/disk/volumes.ts'
import type { Instances, Inventory, ReleaseRef, ReleaseStore } from '../runtime.ts'
import type { Bases } from './base-images.ts'
import { type Containers, type Image, inspectImage, type ListedContainer } from './calls.ts'
import type { Engine } from './client.ts'
import { isAway } from './errors.ts'
import { forgetImage } from './images.ts'
import { appLabel, imageFilter, imageOf, releaseLabel, releaseOfImage, unitLabel } from './names.ts'
import { fromHandle } from './start.ts'

export interface ReleasesParts {
  readonly server: string
  readonly engine: Engine
  readonly containers: Containers
  readonly apps: string
  readonly builds: KeptBuilds | null
  readonly bases: Pick<Bases, 'ownBytes'>
  readonly halt: ReleaseHalt
  readonly freeElsewhere: () => Promise<number | null>
  readonly fence: () => void
}

export interface KeptBuilds {
  isBuilding(appId: string): boolean
  removeApp(appId: string): Promise<void>
  /**
   * Returns the disk use of the layers and caches in bytes. May return any number above `enough` as soon as there are
   * more.
   */
  diskUsage(appId: string, enough?: number): Promise<number>
}

export type ReleaseHalt = (release: ReleaseRef, options: Parameters<Instances['stop']>[1]) => Promise<void>

interface ListedImage {
  readonly RepoTags: readonly string[] | null
}

/** Stores releases as images of the engine. */
export function createReleaseStore(parts: ReleasesParts): ReleaseStore {
  const { server, engine, containers, builds, bases, halt, freeElsewhere, fence } = parts
  const images = async (appId?: string): Promise<ReleaseRef[]> => {
    const query = { filters: imageFilter(server, appId) }
    const listed = await engine.call<ListedImage[]>({ method: 'GET', path: ['images', 'json'], query })
    // The found images may have further names.
    const found = listed.flatMap(({ RepoTags }) => RepoTags ?? []).map((name) => releaseOfImage(server, name))
    return found.filter((release) => release !== null)
  }
  const forget = async (release: ReleaseRef): Promise<void> => {
    fence()
    await forgetImage(engine, imageOf(server, release))
  }

  return {
    halt: (release, options = { graceMs: 0 }) => halt(release, options),
    freeElsewhere,

    async remove(release) {
      await halt(release, { graceMs: 0 })
      await forget(release)
    },

    isMade: (release) => isMade(containers, imageOf(server, release), release),

    async removeApp(appId) {
      await builds?.removeApp(appId)
      try {
        for (const { Id } of await containers.list({ [appLabel]: appId })) await containers.remove(Id)
        for (const release of await images(appId)) await forget(release)
      } catch (error) {
        // A later sweep removes what an absent engine has.
        if (!isAway(error)) throw error
      }
      await removeFolder(volumesIn(join(parts.apps, appId)))
    },

    list: async () => inventoryOf(await images(), await containers.list({ [releaseLabel]: null, [appLabel]: null })),

    async endOthers(release, known) {
      const kept = new Set(known.map((handle) => fromHandle(handle).container))
      const others = (await containers.listOf(release)).filter((each) => isInstance(each) && !kept.has(each.Id))
      for (const { Id } of others) await containers.remove(Id)
    },

    async diskUsage(release, part, enough) {
      const kept = part === 'shared' || part === 'all' ? await sharedBytes(parts, release.appId, enough) : 0
      if (part === 'shared' || (enough !== undefined && kept > enough)) return kept
      const found = await containers.image(imageOf(server, release))
      const image = found === null ? 0 : await bases.ownBytes(found)
      if (part === 'files' || (enough !== undefined && kept + image > enough)) return kept + image
      return kept + image + (await writtenBy(containers, release, enough))
    },
  }
}

export async function imagesOfReleases(engine: Engine, server: string): Promise<Image[]> {
  const query = { filters: imageFilter(server) }
  const listed = await engine.call<Pick<Image, 'Id'>[]>({ method: 'GET', path: ['images', 'json'], query })
  const images = await Promise.all(listed.map(({ Id }) => inspectImage(engine, Id)))
  return images.filter((image) => image !== null)
}

/** Returns the disk use of the data that all releases of an app share, in bytes: build data and volumes. */
async function sharedBytes(
  { apps, builds }: Pick<ReleasesParts, 'apps' | 'builds'>,
  appId: string,
  enough?: number,
): Promise<number> {
  const built = (await builds?.diskUsage(appId, enough)) ?? 0
  if (enough !== undefined && built > enough) return built
  return built + (await sizeOf([volumesIn(join(apps, appId))], enough))
}

function inventoryOf(images: readonly ReleaseRef[], listed: readonly ListedContainer[]): Inventory {
  const releaseOf = ({ Labels }: ListedContainer) => Labels[releaseLabel] ?? ''
  const kept = listed.map((each) => ({ id: releaseOf(each), appId: each.Labels[appLabel] ?? '' }))
  const apps = Map.groupBy([...images, ...kept], ({ appId }) => appId)
  const instances = Map.groupBy(listed.filter(isInstance), releaseOf)
  return {
    apps: [...apps].map(([id, releases]) => ({ id, releases: [...new Set(releases.map((release) => release.id))] })),
    // A server that is killed halfway leaves ended containers.
    running: new Set(listed.map(releaseOf)),
    instances: new Map([...instances].map(([id, all]) => [id, all.length])),
  }
}

/**
 * True for a running or starting instance. An ended container keeps its last lines for the log until the next start.
 */
const isInstance = ({ State, Labels }: ListedContainer): boolean =>
  (Labels[unitLabel] ?? '') !== '' && State !== 'exited' && State !== 'dead' && State !== 'removing'

/**
 * Also false while the engine is away: deployments ask all runtimes, and process releases must not wait for the engine.
 * A later sweep finds the objects in the engine.
 */
async function isMade(
  containers: Pick<Containers, 'image' | 'listOf'>,
  image: string,
  release: ReleaseRef,
): Promise<boolean> {
  try {
    return (await containers.image(image)) !== null || (await containers.listOf(release)).length > 0
  } catch (error) {
    if (isAway(error)) return false
    throw error
  }
}

/**
 * Returns the bytes that the containers of a release have written: to their layers, and to volumes that the image
 * declares.
 */
async function writtenBy(
  containers: Pick<Containers, 'listOf' | 'inspect'>,
  release: ReleaseRef,
  enough?: number,
): Promise<number> {
  let bytes = 0
  for (const { Id, SizeRw = 0 } of await containers.listOf(release, { size: true })) {
    const volumes = (await containers.inspect(Id))?.Mounts.filter(({ Type }) => Type === 'volume') ?? []
    bytes +=
      SizeRw +
      (await sizeOf(
        volumes.map(({ Source }) => Source),
        enough,
      ))
  }
  return bytes
}
