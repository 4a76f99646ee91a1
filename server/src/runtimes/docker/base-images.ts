import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { imageName, parseImageReference } from '../../contract/image-reference.ts'
import { SYSTEM_FOLDERS } from '../../platform/disk/folders.ts'
import { startProcess } from '../../platform/processes.ts'
import type { SystemEntry } from '../../platform/sandbox/arguments.ts'
import { RuntimeError } from '../runtime.ts'
import { archiveOf } from './archive.ts'
import { type Image, inspectImage } from './calls.ts'
import type { Engine } from './client.ts'
import { forgetImage, nameImage, pullError } from './images.ts'
import { readJsonLines } from './streams.ts'

/**
 * The base images of releases: the system, and the system with the programs of builds. Many releases share each base.
 */
export interface Bases {
  /** Returns the bytes of an image that it does not share with other releases. */
  ownBytes(image: Image): Promise<number>
  /** Removes bases without a release, except `names`. */
  keepOnly(names: readonly string[], releases: readonly Image[]): Promise<void>
}

type Listed = Pick<Image, 'Id' | 'RepoTags'>

/** @param fence called before each removal */
export function createBases(engine: Engine, server: string, fence: () => void): Bases {
  /** The known bases by their ids. An image never changes. */
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

/** True when an image begins with all layers of `base`. */
const isBelow = (base: Image, image: Image): boolean =>
  layersOf(base).length > 0 && layersOf(base).every((layer, at) => layersOf(image)[at] === layer)

/*
 * The names of base images. They differ from the names of release images, which are removed with their releases.
 */

const repository = (server: string): string => `fairlead-base/${server.toLowerCase()}`

/** @param key distinguishes images with different contents */
const systemName = (server: string, key: string): string => `${repository(server)}:system-${key}`
export const programsName = (server: string, key: string): string => `${repository(server)}:programs-${key}`

const baseFilter = (server: string): { readonly reference: readonly string[] } => ({
  reference: [repository(server)],
})

const isBaseName = (server: string, name: string): boolean => name.startsWith(`${repository(server)}:`)

/**
 * The system in containers of releases: an image that the operator configures, or the system files that sandboxes show
 * of this machine.
 */
export type SystemSource =
  | { readonly reference: string }
  | {
      readonly entries: () => Promise<readonly Pick<SystemEntry, 'path' | 'link'>[]>
      /** The data directory, which may be inside a system folder. */
      readonly hidden: string
    }

export interface SystemParts {
  readonly engine: Engine
  readonly server: string
  readonly source: SystemSource
  readonly fence: () => void
}

export interface Progress {
  readonly say: (line: string) => Promise<unknown>
  readonly signal: AbortSignal
}

/** Returns the name of the system image. Makes the image if the engine does not have it. */
export function systemImage(parts: SystemParts, progress: Progress): Promise<string> {
  const { source } = parts
  return 'reference' in source ? namedSystem(parts, source.reference, progress) : ownSystem(parts, source, progress)
}

/** Gives the image a name of this server, so the engine keeps it when its tag moves to another image. */
async function namedSystem(
  { engine, server, fence }: SystemParts,
  reference: string,
  { say, signal }: Progress,
): Promise<string> {
  const name = systemName(server, createHash('sha256').update(reference).digest('hex').slice(0, 16))
  if ((await inspectImage(engine, name)) !== null) return name
  if ((await inspectImage(engine, reference)) === null) {
    await say(`Pulling ${reference}, the base of containers (FAIRLEAD_DOCKER_BASE)`)
    await pull(engine, reference, fence, signal)
  }
  fence()
  await nameImage(engine, reference, name)
  return name
}

async function pull(engine: Engine, reference: string, fence: () => void, signal: AbortSignal): Promise<void> {
  const parsed = parseImageReference(reference)
  if ('problem' in parsed) throw new RuntimeError('image_not_found', `FAIRLEAD_DOCKER_BASE ${parsed.problem}.`)
  const query = { fromImage: imageName(parsed), tag: parsed.digest ?? parsed.tag ?? undefined }
  fence()
  try {
    const answer = await engine.open({ method: 'POST', path: ['images', 'create'], query, signal, timeoutMs: 0 })
    for await (const { error } of readJsonLines<{ readonly error?: string }>(answer)) {
      if (error !== undefined) throw new RuntimeError('image_not_found', `FAIRLEAD_DOCKER_BASE: ${error}`)
    }
  } catch (error) {
    signal.throwIfAborted()
    throw pullError(error, reference, false)
  }
}

/** Containers use neither kernel modules nor firmware. */
const useless = ['/usr/lib/modules', '/usr/lib/firmware', '/lib/modules', '/lib/firmware']
/** Folders that programs expect, with their rights. */
const expected = { tmp: 0o1777, run: 0o755, var: 0o755, 'var/tmp': 0o1777, root: 0o700 }
/** The reader of system files: only files that everybody may read get into an image. */
const nobody = { uid: 65_534, gid: 65_534 }

/** The import of the system of this machine happens once per state of its programs. */
async function ownSystem(
  { engine, server, fence }: SystemParts,
  { entries, hidden }: Extract<SystemSource, { entries: unknown }>,
  { say, signal }: Progress,
): Promise<string> {
  const listed = (await entries()).filter(({ path }) => !path.startsWith('/sys/') && !path.startsWith('/run/'))
  const paths = listed.map(({ path }) => path)
  const state = await stateOf(paths)
  const hash = createHash('sha256').update(JSON.stringify([state, listed]))
  const name = systemName(server, hash.digest('hex').slice(0, 16))
  if ((await inspectImage(engine, name)) !== null) return name
  const begun = performance.now()
  await say('Importing the programs of this machine as the base of containers, once until they change')
  const top = await mkdtemp(join(tmpdir(), 'fairlead-base-'))
  try {
    for (const [folder, mode] of Object.entries(expected)) {
      await mkdir(join(top, folder))
      await chmod(join(top, folder), mode)
    }
    await chmod(top, 0o755)
    const files = archiveOf({
      parts: [
        { folder: '/', paths: paths.map((path) => path.slice(1)) },
        { folder: top, paths: Object.keys(expected), isShallow: true },
      ],
      without: [hidden, ...useless],
      reader: process.getuid?.() === 0 ? nobody : null,
      isLenient: true,
      mostBytes: Number.POSITIVE_INFINITY,
    })
    fence()
    await importImage(engine, name, files, signal)
  } finally {
    await rm(top, { recursive: true, force: true })
  }
  const megabytes = Math.round(((await inspectImage(engine, name))?.Size ?? 0) / 1_000_000)
  await say(`The base of containers has ${megabytes} MB, and took ${Math.round((performance.now() - begun) / 1000)} s`)
  return name
}

async function importImage(
  engine: Engine,
  name: string,
  files: ReturnType<typeof archiveOf>,
  signal: AbortSignal,
): Promise<void> {
  const [repo, tag] = name.split(':')
  try {
    const answer = await engine.open({
      method: 'POST',
      path: ['images', 'create'],
      query: { fromSrc: '-', repo, tag },
      upload: files,
      signal,
      timeoutMs: 0,
    })
    for await (const { error } of readJsonLines<{ readonly error?: string }>(answer)) {
      if (error !== undefined) throw new Error(`the engine does not take the base of containers: ${error}`)
    }
    signal.throwIfAborted()
  } finally {
    files.destroy()
  }
}

/** Python writes this folder automatically, and nothing depends on it. */
const unstable = '__pycache__'

/**
 * Returns a hash that changes when a file in one of these folders, or below, is added, replaced or removed, as packages
 * do. It does not notice an overwrite of a file in place: that would need a look at every file.
 */
async function stateOf(paths: readonly string[]): Promise<string> {
  const tests = ['-name', unstable, '-prune', '-o', '(', '-type', 'd', '-o', '-path', '/etc/*', ')']
  return printed(paths, [...tests, '-printf', '%p %T@\\n'])
}

/** Returns a hash of the names and sizes of all files in these folders. */
export const contentsOf = (paths: readonly string[]): Promise<string> => printed(paths, ['-printf', '%p %s %l\\n'])

async function printed(paths: readonly string[], expression: readonly string[]): Promise<string> {
  const find = startProcess('find', ['-P', ...paths, ...expression], {
    env: { PATH: SYSTEM_FOLDERS.join(':') },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const hash = createHash('sha256')
  find.stdout?.on('data', (chunk: Buffer) => void hash.update(chunk))
  // A file may be removed during the search.
  await once(find, 'close')
  return hash.digest('hex').slice(0, 16)
}
