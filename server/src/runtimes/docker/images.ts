import { createHash } from 'node:crypto'
import { type FileHandle, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { type ImageReference, imageName, parseImageReference } from '../../contract/image-reference.ts'
import { createKeyedLock } from '../../platform/keyed-lock.ts'
import { type Images, type RegistryCredentials, type Release, RuntimeError } from '../runtime.ts'
import { inspectForeign } from './calls.ts'
import type { Engine } from './client.ts'
import { EngineError, isMissing, isSilent, unlessMissing } from './errors.ts'
import { imageOf } from './names.ts'
import { readJsonLines } from './streams.ts'

export interface PullParts {
  readonly engine: Engine
  readonly server: string
  readonly mostBytes: number
  readonly unfinished: Pick<UnfinishedPulls, 'during'>
  readonly fence: () => void
}

interface Manifest {
  readonly Descriptor: { readonly digest: string }
  readonly Platforms?: readonly { readonly os?: string; readonly architecture?: string }[] | null
}

/** A machine also runs programs of the older architecture. */
const alsoRuns: Readonly<Record<string, string>> = { amd64: '386', arm64: 'arm' }

/**
 * Makes the function that pulls images. It pulls an image by its digest. Unless the image existed before, it afterwards
 * has only the name of its release. So the removal of the last release removes the image, and images of other owners
 * stay untouched.
 */
export function createPull(parts: PullParts): Images['pull'] {
  // Concurrent pulls of one image would remove each other's names.
  const oneAtATime = createKeyedLock()
  return async (release, image, { output, signal }) => {
    const reference = parseImageReference(image.reference)
    if ('problem' in reference) throw new RuntimeError('image_not_found', `The image ${reference.problem}.`)
    const { credentials } = image
    const headers: Record<string, string> =
      credentials === null ? {} : { 'x-registry-auth': authOf(reference, credentials) }
    try {
      const digest = await resolve(parts.engine, reference, headers, signal)
      const work = () => pullOne(parts, release, { reference, digest, headers }, output, signal)
      return await oneAtATime(`${imageName(reference)}@${digest}`, work, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw pullError(error, imageName(reference), credentials !== null)
    }
  }
}

/**
 * Stores the names of images during pulls, one per file: an image has the name in its registry until it gets the name
 * of its release. It keeps the first name when the server is killed in between.
 */
interface UnfinishedPulls {
  /** Runs a pull. Afterwards the engine has no image of this name, unless `wasThere` tells that it had one before. */
  during<T>(name: string, wasThere: () => Promise<boolean>, pull: () => Promise<T>): Promise<T>
  clean(): Promise<void>
}

/** @param directory a folder only for these files; made when it is missing */
export function createUnfinishedPulls(engine: Engine, directory: string, fence: () => void): UnfinishedPulls {
  const underWay = new Set<string>()
  const fileOf = (name: string) => join(directory, createHash('sha256').update(name).digest('hex'))
  const forget = async (name: string): Promise<void> => {
    fence()
    await forgetImage(engine, name)
    await rm(fileOf(name), { force: true })
  }
  return {
    async during(name, wasThere, pull) {
      underWay.add(name)
      try {
        const isLeft = (await readName(fileOf(name))) !== null
        if (!isLeft && (await wasThere())) return await pull()
        await mkdir(directory, { recursive: true, mode: 0o700 })
        await writeFile(fileOf(name), name, { mode: 0o600 })
        try {
          return await pull()
        } finally {
          await forget(name)
        }
      } finally {
        underWay.delete(name)
      }
    },

    async clean() {
      for (const file of await readdir(directory).catch(() => [])) {
        const name = await readName(join(directory, file))
        if (name !== null && !underWay.has(name)) await forget(name)
      }
    },
  }
}

/**
 * Explains the failure of a pull to the owner. Returns the error itself when neither the image nor its registry is the
 * cause.
 */
export function pullError(error: unknown, name: string, hasCredentials: boolean): unknown {
  if (!(error instanceof EngineError) || error.status === null) return error
  return imageProblem(error.detail, name, hasCredentials) ?? error
}

export async function nameImage(engine: Engine, image: string, name: string): Promise<void> {
  const [repo, tag] = name.split(':')
  try {
    await engine.call({ method: 'POST', path: ['images', image, 'tag'], query: { repo, tag } })
  } catch (error) {
    if (!isMissing(error)) throw error
    const message = 'The image of the release is not kept on this server any more. Deploy it again.'
    throw new RuntimeError('image_not_found', message)
  }
}

const mostAttempts = 5

/**
 * Removes a name from an image, and removes the image with its last name. An engine that removes two names of one image
 * at the same time fails for one of them; a retry succeeds.
 */
export async function forgetImage(engine: Engine, name: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await unlessMissing(engine.call({ method: 'DELETE', path: ['images', name] }), null)
      return
    } catch (error) {
      if (!(error instanceof EngineError) || error.status !== 500 || attempt === mostAttempts) throw error
    }
  }
}

/** The engine uses the credentials for one request and does not store them. */
function authOf({ registry }: ImageReference, { username, password }: RegistryCredentials): string {
  const serveraddress = registry === 'docker.io' ? 'https://index.docker.io/v1/' : registry
  return encodeAuth({ username, password, serveraddress })
}

/** Encodes credentials for the header `X-Registry-Auth`. Older engines need the base64 padding. */
export const encodeAuth = (credentials: object): string =>
  Buffer.from(JSON.stringify(credentials)).toString('base64').replaceAll('+', '-').replaceAll('/', '_')

/** Returns the digest in the registry, and checks that the image runs on the engine's machine. */
async function resolve(
  engine: Engine,
  reference: ImageReference,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<string> {
  const name = imageName(reference)
  const named = reference.digest === null ? `${name}:${reference.tag}` : `${name}@${reference.digest}`
  const [{ Descriptor, Platforms }, machine] = await Promise.all([
    engine
      .call<Manifest>({ method: 'GET', path: ['distribution', named, 'json'], headers, signal })
      // If the engine reports its version, the registry is silent.
      .catch((error: unknown) => Promise.reject(isSilent(error) ? silentRegistry(name) : error)),
    engine.version(),
  ])
  const platforms = (Platforms ?? []).filter(({ architecture = '' }) => architecture !== '')
  if (platforms.length > 0 && !platforms.some(({ os, architecture }) => runsOn(machine, os, architecture))) {
    throw platformError(name, `${machine.Os}/${machine.Arch}`)
  }
  return Descriptor.digest
}

const runsOn = ({ Os, Arch }: { Os: string; Arch: string }, os = '', architecture = ''): boolean =>
  os === Os && (architecture === Arch || architecture === alsoRuns[Arch])

async function pullOne(
  { engine, server, mostBytes, unfinished, fence }: PullParts,
  release: Release,
  from: { readonly reference: ImageReference; readonly digest: string; readonly headers: Record<string, string> },
  output: FileHandle,
  signal: AbortSignal,
): Promise<string> {
  const { reference, digest, headers } = from
  const name = imageName(reference)
  const pulled = `${name}@${digest}`
  const find = () => inspectForeign(engine, pulled, name)
  const pull = async (): Promise<string> => {
    fence()
    const answer = await engine.open({
      method: 'POST',
      path: ['images', 'create'],
      query: { fromImage: name, tag: digest },
      headers,
      signal,
      timeoutMs: 0,
    })
    try {
      const fits = await readProgress(answer, async (line) => void (await output.write(`${line}\n`)), mostBytes)
      if (!fits) throw tooLarge(name, mostBytes)
      const [image, machine] = await Promise.all([find(), engine.version()])
      if ((image?.Size ?? 0) > mostBytes) throw tooLarge(name, mostBytes)
      if (image !== null && !runsOn(machine, image.Os, image.Architecture)) {
        throw platformError(name, `${machine.Os}/${machine.Arch}`)
      }
      await nameImage(engine, pulled, imageOf(server, release))
      return pulled
    } finally {
      answer.destroy()
    }
  }
  return unfinished.during(pulled, async () => (await find()) !== null, pull)
}

const tooLarge = (name: string, mostBytes: number): RuntimeError =>
  new RuntimeError(
    'too_large',
    `The image ${name} has more than ${Math.floor(mostBytes / 1_000_000)} MB, the most for a release. Make the image smaller.`,
  )

interface Progress {
  readonly id?: string
  readonly status?: string
  readonly progressDetail?: { readonly total?: number }
  readonly error?: string
}

/** The messages at the beginning and at the end of each layer. The engine sends many more in between. */
const told = /^(Pulling fs layer|Already exists|Pull complete|Download complete)$/

/**
 * Reads the progress of a pull to its end, and reports it in few lines.
 *
 * @param most the limit in bytes for the compressed layers
 * @returns false when the layers have more
 * @throws EngineError when the pull has failed
 */
async function readProgress(answer: Readable, say: (line: string) => Promise<void>, most: number): Promise<boolean> {
  const sizes = new Map<string, number>()
  for await (const { id = '', status = '', progressDetail, error } of readJsonLines<Progress>(answer)) {
    if (error !== undefined) throw new EngineError('POST images/create', 500, error)
    if (progressDetail?.total !== undefined && status === 'Downloading') sizes.set(id, progressDetail.total)
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0)
    if (bytes > most) return false
    if (told.test(status)) await say(`${id}: ${status}`)
  }
  return true
}

/**
 * Null when the file is missing, or incomplete because the server ended during the write. In both cases no pull had
 * begun.
 */
async function readName(file: string): Promise<string | null> {
  const name = await readFile(file, 'utf8').catch(() => '')
  return name.includes('@sha256:') ? name : null
}

interface Kind {
  readonly words: RegExp
  readonly error: (name: string, hasCredentials: boolean) => RuntimeError
}

/**
 * The failures of a pull, by words in messages of the engine and of registries. The order matters, because several
 * words may occur together.
 */
const kinds: readonly Kind[] = [
  {
    words: /no space left on device/i,
    error: (name) =>
      new RuntimeError('no_space', `The disk of the server has no room for ${name}. Ask its operator to make some.`),
  },
  {
    words: /no matching manifest|platform|image operating system|exec format/i,
    error: (name) => platformError(name, null),
  },
  {
    words: /toomanyrequests|too many requests|rate limit/i,
    error: (name) =>
      new RuntimeError(
        'registry_unreachable',
        `The registry of ${name} answers no more requests of this server for now: it limits their number. Deploy again later, or with credentials.`,
      ),
  },
  {
    // Docker Hub answers the same for missing repositories.
    words: /pull access denied|requested access to the resource is denied/i,
    error: (name, hasCredentials) => (hasCredentials ? denied(name, true) : hidden(name)),
  },
  {
    words:
      /unauthorized|authentication required|no basic auth credentials|incorrect username or password|forbidden|denied/i,
    error: (name, hasCredentials) => denied(name, hasCredentials),
  },
  {
    words: /manifest unknown|name unknown|not found|no such image/i,
    error: (name) =>
      new RuntimeError(
        'image_not_found',
        `The registry has no image ${name}. See its name and its tag, or push it first.`,
      ),
  },
  {
    words:
      /dial |lookup |no such host|refused|timeout|timed out|deadline|x509|tls|HTTP response to HTTPS|EOF|reset by peer|unreachable|\b50\d\b|bad gateway/i,
    error: (name) =>
      new RuntimeError(
        'registry_unreachable',
        `The registry of ${name} could not be reached from the server, or does not speak HTTPS. See its address, or deploy again later.`,
      ),
  },
]

const denied = (name: string, hasCredentials: boolean): RuntimeError =>
  new RuntimeError(
    'image_denied',
    hasCredentials
      ? `The registry of ${name} refuses the credentials that the project has for it, or they do not allow this image. Set new ones: ${howToSet(name)}.`
      : `The registry of ${name} asks for credentials. Set them for the project: ${howToSet(name)}.`,
  )

const hidden = (name: string): RuntimeError =>
  new RuntimeError(
    'image_not_found',
    `The registry has no image ${name}, or hides it from those without credentials. See its name, or set credentials for the project: ${howToSet(name)}.`,
  )

/** @param name the name with its registry, such as `docker.io/library/nginx` */
const howToSet = (name: string): string =>
  `fairlead registries add ${name.slice(0, name.indexOf('/'))}, or Settings of the project in the dashboard`

/** @param machine the engine's platform, such as `linux/amd64`; null when unknown */
const platformError = (name: string, machine: string | null): RuntimeError =>
  new RuntimeError(
    'image_platform',
    `The image ${name} is made for another kind of machine than the server's${machine === null ? '' : ` (${machine})`}. Build it for that one.`,
  )

const silentRegistry = (name: string): RuntimeError =>
  new RuntimeError(
    'registry_unreachable',
    `The registry of ${name} took a request of the server, and gave no answer. See whether it works, or deploy again later.`,
  )

/** Explains a message of an engine about an image or its registry to the owner; null for other messages. */
export const imageProblem = (words: string, name: string, hasCredentials: boolean): RuntimeError | null =>
  kinds.find((each) => each.words.test(words))?.error(name, hasCredentials) ?? null
