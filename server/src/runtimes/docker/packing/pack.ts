import { chmod, copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import type { BuiltRelease, FindBuilt } from '../../built-release.ts'
import { type Release, RuntimeError } from '../../runtime.ts'
import type { PackRelease } from '../../runtimes.ts'
import type { Containers } from '../calls/containers.ts'
import type { Image } from '../calls/types.ts'
import { EngineError } from '../engine/error.ts'
import { imageOf, labelsOf } from '../names.ts'
import { type ArchivePart, ArchiveTooLarge, archiveOf } from './archive.ts'
import type { Bases } from './bases.ts'
import { addLayer, type LayerParts } from './layer.ts'
import { placeLabel } from './place.ts'
import { type KnownPrograms, programsImage } from './programs.ts'
import { type Progress, type SystemSource, systemImage } from './system.ts'

export interface PackParts extends LayerParts {
  readonly server: string
  readonly containers: Pick<Containers, 'image' | 'listOf' | 'remove'>
  readonly source: SystemSource
  readonly bases: Bases
  /** Returns the images of all releases. */
  readonly images: () => Promise<readonly Image[]>
  readonly findBuilt: FindBuilt
  /** The most bytes of a release. */
  readonly mostBytes: number
}

/** Makes images of releases that were built in folders of this machine. Nothing of a tenant is run for it. */
export interface Packing {
  readonly pack: PackRelease
  /** Makes the image of the system ahead of the first release that needs it. */
  prepare(progress: Progress): Promise<void>
}

export function createPacking(parts: PackParts): Packing {
  // Bases that are new take the place of others, which the next release may have begun with.
  const lock = createKeyedLock()
  const known: KnownPrograms = new Map()
  return {
    prepare: (progress) => lock('', async () => void (await systemImage(parts, progress)), progress.signal),

    pack: (release, { output, signal }) =>
      lock(
        '',
        async () => {
          const say = (line: string) => output.write(`${line}\n`)
          try {
            const bytes = await packOne(parts, known, release, { say, signal })
            await say(`The image of the release adds ${(bytes / 1_000_000).toFixed(1)} MB to its base`)
          } catch (error) {
            signal.throwIfAborted()
            throw asRuntimeError(error, parts.mostBytes)
          }
        },
        signal,
      ),
  }
}

/** Returns the bytes of the files of the release. */
async function packOne(parts: PackParts, known: KnownPrograms, release: Release, progress: Progress): Promise<number> {
  const { server, containers, bases, findBuilt, mostBytes } = parts
  const { signal } = progress
  const built = await findBuilt(release)
  const system = await systemImage(parts, progress)
  const { name: from, isNew } = await programsImage(parts, known, system, built, progress)
  if (isNew) await bases.keepOnly([system, from], await parts.images())
  // A server that was killed has left the one of its attempt.
  for (const { Id } of await containers.listOf(release)) await containers.remove(Id)
  const top = await mkdtemp(join(tmpdir(), 'fairlead-pack-'))
  const name = imageOf(server, release)
  try {
    // A file that its own user may not read is none that a program of the release could.
    const files = archiveOf({ parts: await partsOf(built, top), reader: readerOf(built), isLenient: true, mostBytes })
    await addLayer(parts, { from, name, files, settings: settingsOf(server, release, built) }, signal)
  } finally {
    await rm(top, { recursive: true, force: true })
  }
  const made = await containers.image(name)
  return made === null ? 0 : bases.ownBytes(made)
}

/** The files are read with the rights of the app, whose other releases may run and exchange some for links. */
const readerOf = ({ user }: BuiltRelease) => (process.getuid?.() === 0 ? user : null)

/** Returns the files of a release: what it was built of, and the accounts that programs ask the system for. */
async function partsOf({ place, accounts }: BuiltRelease, top: string): Promise<ArchivePart[]> {
  const inside = (path: string) => path.slice(1)
  const own: ArchivePart[] = [
    { folder: '/', paths: [place.source, place.home].map(inside) },
    { folder: '/', paths: [inside(place.temporary)], isShallow: true },
  ]
  if (accounts === null) return own
  await mkdir(join(top, 'etc'))
  for (const [name, path] of Object.entries(accounts)) await copyFile(path, join(top, 'etc', name))
  for (const folder of [top, join(top, 'etc')]) await chmod(folder, 0o755)
  return [...own, { folder: top, paths: Object.keys(accounts).map((name) => `etc/${name}`) }]
}

const settingsOf = (server: string, release: Release, { place, user }: BuiltRelease) => ({
  User: `${user.uid}:${user.gid}`,
  WorkingDir: place.source,
  Labels: { ...labelsOf(server, release), [placeLabel]: JSON.stringify(place) },
})

function asRuntimeError(error: unknown, mostBytes: number): unknown {
  if (error instanceof ArchiveTooLarge) {
    const most = `${Math.floor(mostBytes / 1_000_000)} MB`
    return new RuntimeError('too_large', `The release has more than ${most}, the most for a release. Make it smaller.`)
  }
  if (error instanceof EngineError && /no space left/i.test(error.detail)) {
    return new RuntimeError('no_space', 'The disk of the Docker engine is full. Tell the operator of the server.')
  }
  return error
}
