import { inspectImage } from '../calls/images.ts'
import type { Image } from '../calls/types.ts'
import type { Engine } from '../engine/engine.ts'
import { forgetImage } from '../images/name-image.ts'
import { baseFilter, isBaseName } from './base-names.ts'

/** The images that releases are made of: the system, and the system with the programs of builds. Many releases share each. */
export interface Bases {
  /** Returns the bytes of an image that it does not share with the releases of others. */
  ownBytes(image: Image): Promise<number>
  /** Removes those that no release is made of any more, but for these. */
  keepOnly(names: readonly string[], releases: readonly Image[]): Promise<void>
}

type Listed = Pick<Image, 'Id' | 'RepoTags'>

/** @param fence called right before something is removed */
export function createBases(engine: Engine, server: string, fence: () => void): Bases {
  /** The bases that were described, by their ids: none ever changes. */
  const known = new Map<string, Image>()

  const all = async (): Promise<{ readonly image: Image; readonly names: readonly string[] }[]> => {
    const query = { filters: baseFilter(server) }
    const listed = await engine.call<Listed[]>({ method: 'GET', path: ['images', 'json'], query })
    const found = await Promise.all(
      listed.map(async ({ Id, RepoTags }) => {
        const image = known.get(Id) ?? (await inspectImage(engine, Id))
        return image === null ? [] : [{ image, names: (RepoTags ?? []).filter((name) => isBaseName(server, name)) }]
      }),
    )
    known.clear()
    for (const { image } of found.flat()) known.set(image.Id, image)
    return found.flat()
  }

  return {
    async ownBytes(image) {
      const below = (await all()).filter((base) => isBelow(base.image, image)).map((base) => base.image.Size)
      return Math.max(0, image.Size - Math.max(0, ...below))
    },

    async keepOnly(kept, releases) {
      for (const { image, names } of await all()) {
        if (names.some((name) => kept.includes(name)) || releases.some((release) => isBelow(image, release))) continue
        for (const name of names) {
          fence()
          await forgetImage(engine, name)
        }
      }
    },
  }
}

const layersOf = ({ RootFS }: Image): readonly string[] => RootFS?.Layers ?? []

/** True when an image begins with all layers of another one. */
const isBelow = (base: Image, image: Image): boolean =>
  layersOf(base).length > 0 && layersOf(base).every((layer, at) => layersOf(image)[at] === layer)
