import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { imageName, parseImageReference } from '../../../contract/image-reference.ts'
import type { SystemEntry } from '../../../platform/machine/sandbox/system.ts'
import { RuntimeError } from '../../runtime.ts'
import { inspectImage } from '../calls/images.ts'
import type { Engine } from '../engine/engine.ts'
import { readJsonLines } from '../engine/streams.ts'
import { pullError } from '../images/errors.ts'
import { nameImage } from '../images/name-image.ts'
import { archiveOf } from './archive.ts'
import { systemName } from './base-names.ts'
import { stateOf } from './state-of-files.ts'

/** The system that containers of releases have: an image that the operator names, or what sandboxes show of this machine. */
export type SystemSource =
  | { readonly reference: string }
  | {
      readonly entries: () => Promise<readonly Pick<SystemEntry, 'path' | 'link'>[]>
      /** The data directory, which may lie in a folder of the system. */
      readonly hidden: string
    }

export interface SystemParts {
  readonly engine: Engine
  readonly server: string
  readonly source: SystemSource
  readonly fence: () => void
}

export interface Progress {
  /** Tells whoever waits what is done, in one line. */
  readonly say: (line: string) => Promise<unknown>
  readonly signal: AbortSignal
}

/** Returns the name of the image of the system, which is made where the engine does not have it. */
export function systemImage(parts: SystemParts, progress: Progress): Promise<string> {
  const { source } = parts
  return 'reference' in source ? namedSystem(parts, source.reference, progress) : ownSystem(parts, source, progress)
}

/** The image has a name of this server's own, by which the engine keeps it when its tag names another one. */
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

/** Kernel modules and the firmware of devices, of which a container uses neither. */
const useless = ['/usr/lib/modules', '/usr/lib/firmware', '/lib/modules', '/lib/firmware']
/** Folders that programs expect, with their rights. */
const expected = { tmp: 0o1777, run: 0o755, var: 0o755, 'var/tmp': 0o1777, root: 0o700 }
/** Reads what everybody may read: what others of the machine keep to themselves gets into no image. */
const nobody = { uid: 65_534, gid: 65_534 }

/** The machine's own is imported once for each state that its programs are in. */
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
