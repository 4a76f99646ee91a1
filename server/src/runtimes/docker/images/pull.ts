import type { FileHandle } from 'node:fs/promises'
import { type ImageReference, imageName, parseImageReference } from '../../../contract/image-reference.ts'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import { type Images, type RegistryCredentials, type Release, RuntimeError } from '../../runtime.ts'
import { inspectForeign } from '../calls/images.ts'
import type { Engine } from '../engine/engine.ts'
import { isSilent } from '../engine/error.ts'
import { imageOf } from '../names.ts'
import { platformError, pullError, silentRegistry } from './errors.ts'
import { nameImage } from './name-image.ts'
import { readProgress } from './progress.ts'
import type { UnfinishedPulls } from './unfinished.ts'

export interface PullParts {
  readonly engine: Engine
  readonly server: string
  /** The most bytes of an image, as it is sent and as it is kept. */
  readonly mostBytes: number
  readonly unfinished: Pick<UnfinishedPulls, 'during'>
  readonly fence: () => void
}

interface Manifest {
  readonly Descriptor: { readonly digest: string }
  readonly Platforms?: readonly { readonly os?: string; readonly architecture?: string }[] | null
}

/** Programs of older machines of the same kind run as well. */
const alsoRuns: Readonly<Record<string, string>> = { amd64: '386', arm64: 'arm' }

/**
 * Makes the function that pulls images. An image is pulled by its digest, and has the name of its release alone afterwards, if
 * it was not there before: so the last release of it that is removed takes it along, and no image of others is touched.
 */
export function createPull(parts: PullParts): Images['pull'] {
  // Two pulls of one image at once would take each other's names away.
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

/** The engine takes the credentials for one request, and keeps none. */
function authOf({ registry }: ImageReference, { username, password }: RegistryCredentials): string {
  const serveraddress = registry === 'docker.io' ? 'https://index.docker.io/v1/' : registry
  return encodeAuth({ username, password, serveraddress })
}

/** Encodes credentials for the header `X-Registry-Auth`, which older engines read only with the padding of base64. */
export const encodeAuth = (credentials: object): string =>
  Buffer.from(JSON.stringify(credentials)).toString('base64').replaceAll('+', '-').replaceAll('/', '_')

/** Asks the registry for the digest of an image, and whether it runs on the engine's machine. */
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
      // The engine says its version meanwhile: it is the registry that gives no answer.
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
