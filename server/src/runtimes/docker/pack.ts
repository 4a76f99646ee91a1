import { createHash } from 'node:crypto'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import { type Release, RuntimeError } from '../runtime.ts'
import type { BuiltRelease, FindBuilt, PackRelease } from '../runtimes.ts'
import { type ArchivePart, ArchiveTooLarge, archiveOf } from './archive.ts'
import { type Bases, contentsOf, type Progress, programsName, type SystemSource, systemImage } from './base-images.ts'
import { type Containers, type Image, inspectImage, type Waiters } from './calls.ts'
import type { Engine } from './client.ts'
import { EngineError } from './errors.ts'
import { commandLabel, imageOf, labelsOf, serverLabel, waiterLabel } from './names.ts'
import { placeLabel } from './specification.ts'

export interface PackParts extends LayerParts {
  readonly server: string
  readonly containers: Pick<Containers, 'image' | 'listOf' | 'remove'>
  readonly source: SystemSource
  readonly bases: Bases
  readonly images: () => Promise<readonly Image[]>
  readonly findBuilt: FindBuilt
  readonly mostBytes: number
}

/** Makes images of releases from folders of this machine. Runs no code of a tenant. */
export interface Packing {
  readonly pack: PackRelease
  /** Makes the system image before the first release needs it. */
  prepare(progress: Progress): Promise<void>
}

export function createPacking(parts: PackParts): Packing {
  // New bases replace others, which a concurrent pack may need.
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

async function packOne(parts: PackParts, known: KnownPrograms, release: Release, progress: Progress): Promise<number> {
  const { server, containers, bases, findBuilt, mostBytes } = parts
  const { signal } = progress
  const built = await findBuilt(release)
  const system = await systemImage(parts, progress)
  const { name: from, isNew } = await programsImage(parts, known, system, built, progress)
  if (isNew) await bases.keepOnly([system, from], await parts.images())
  // A killed server has left its container.
  for (const { Id } of await containers.listOf(release)) await containers.remove(Id)
  const top = await mkdtemp(join(tmpdir(), 'fairlead-pack-'))
  const name = imageOf(server, release)
  try {
    // Programs of the release could not read such a file either.
    const files = archiveOf({ parts: await partsOf(built, top), reader: readerOf(built), isLenient: true, mostBytes })
    await addLayer(parts, { from, name, files, settings: settingsOf(server, release, built) }, signal)
  } finally {
    await rm(top, { recursive: true, force: true })
  }
  const made = await containers.image(name)
  return made === null ? 0 : bases.ownBytes(made)
}

/** The files are read with the rights of the app: its other releases may run and replace files by links. */
const readerOf = ({ user }: BuiltRelease) => (process.getuid?.() === 0 ? user : null)

/** Returns the files of a release: its build folders, and the account files of the system. */
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

interface LayerParts {
  readonly engine: Engine
  readonly waiters: Pick<Waiters, 'during'>
  /** Called right before the server makes or removes an object. */
  readonly fence: () => void
}

export interface NewLayer {
  /** The parent image, by name or id. */
  readonly from: string
  /** `repository:tag` */
  readonly name: string
  /** A tar archive from the top, whose owners and rights are kept. */
  readonly files: Readable
  readonly settings: { readonly Labels: Readonly<Record<string, string>>; readonly [name: string]: unknown }
}

/**
 * Makes an image without running anything: the files go into a container that never starts, and the container becomes
 * an image. So no builder is needed, which future engines may lack, and no layer is made twice.
 */
export const addLayer = ({ waiters, ...parts }: LayerParts, layer: NewLayer, signal: AbortSignal): Promise<void> =>
  waiters.during('layer', (labels) => commit(parts, layer, labels, signal))

/** Empties the labels of an awaited container for the image. */
const ofNone = { [commandLabel]: '', [waiterLabel]: '' }

async function commit(
  { engine, fence }: Omit<LayerParts, 'waiters'>,
  { from, name, files, settings: { Labels, ...settings } }: NewLayer,
  waited: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const [repo, tag] = name.split(':')
  fence()
  const body = {
    ...{ Image: from, Entrypoint: ['/none'], HostConfig: { NetworkMode: 'none' } },
    ...settings,
    Labels: { ...Labels, ...waited },
  }
  const { Id } = await engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body, signal })
  try {
    await engine.call({
      method: 'PUT',
      path: ['containers', Id, 'archive'],
      query: { path: '/' },
      upload: files,
      signal,
      timeoutMs: 0,
    })
    fence()
    const query = { container: Id, repo, tag }
    await engine.call({ method: 'POST', path: ['commit'], query, body: { Labels: ofNone }, signal, timeoutMs: 0 })
  } catch (error) {
    // The engine only saw the request end.
    throw files.errored ?? error
  } finally {
    files.destroy()
    await engine.call({ method: 'DELETE', path: ['containers', Id], query: { force: true, v: true } })
  }
}

export interface ProgramsParts extends LayerParts {
  readonly server: string
}

/** Hashes of program folders by path. They stay the same while a server runs. */
type KnownPrograms = Map<string, string>

/**
 * Returns the name of the image with a system and the programs of a release, at the same paths. Releases with the same
 * programs share it.
 *
 * @param system the name of the system image
 * @returns the name, and `isNew` when the image was made now
 */
async function programsImage(
  { server, ...parts }: ProgramsParts,
  known: KnownPrograms,
  system: string,
  { programs, place }: Pick<BuiltRelease, 'programs' | 'place'>,
  { signal }: Pick<Progress, 'signal'>,
): Promise<{ readonly name: string; readonly isNew: boolean }> {
  const base = await inspectImage(parts.engine, system)
  const key = JSON.stringify([programs, place.bin])
  const contents = known.get(key) ?? `${await contentsOf(programs)} ${await scriptsIn(place.bin)}`
  known.set(key, contents)
  const state = [base?.Id, key, contents]
  const hash = createHash('sha256').update(JSON.stringify(state))
  const name = programsName(server, hash.digest('hex').slice(0, 16))
  if ((await inspectImage(parts.engine, name)) !== null) return { name, isNew: false }
  const files = archiveOf({
    parts: [{ folder: '/', paths: programs.map((path) => path.slice(1)) }],
    reader: null,
    mostBytes: Number.POSITIVE_INFINITY,
  })
  await addLayer(parts, { from: system, name, files, settings: { Labels: { [serverLabel]: server } } }, signal)
  return { name, isNew: true }
}

/** Scripts of another server may have the same size but contain other paths. */
async function scriptsIn(bin: string): Promise<string> {
  const hash = createHash('sha256')
  const entries = await readdir(bin, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
  for (const name of names.sort()) hash.update(await readFile(join(bin, name)))
  return hash.digest('hex')
}
