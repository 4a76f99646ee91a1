import { randomUUID } from 'node:crypto'
import { type Http2Session, performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { type ImageReference, parseImageReference, parseRegistry } from '../../../contract/image-reference.ts'
import type { RegistryCredentials } from '../../runtime.ts'
import type { Engine } from '../client.ts'
import { readJsonLines } from '../streams.ts'
import { bytesField, numberField, readFields, textOf } from './protobuf.ts'

export interface BuildRequest extends BuildAnswers {
  readonly context: Readable
  readonly dockerfile: string
  readonly target: string | null
  readonly tag: string
  /** Labels for the image. They override labels of the same name in the Dockerfile. */
  readonly labels: Readonly<Record<string, string>>
  /** The predefined proxy arguments of every Dockerfile, which leave no trace in images. */
  readonly proxies: Readonly<Record<string, string>>
}

export type BuildOutcome =
  | { readonly ok: true }
  | {
      readonly ok: false
      readonly message: string
      readonly code: number
      /** The registry image that BuildKit could not inspect; null for other failures. */
      readonly image: FailedImage | null
    }

interface Message {
  readonly id?: string
  readonly aux?: unknown
  readonly error?: string
}

/**
 * Builds an image with BuildKit. Steps use the network of the daemon.
 *
 * @param say receives the output of the build, usually in whole lines
 * @throws EngineError when the daemon refuses the build or ends; the error of `credentialsFor`
 */
export async function buildImage(
  engine: Pick<Engine, 'open' | 'upgrade'>,
  request: BuildRequest,
  say: (text: string) => Promise<unknown>,
  aborted: AbortSignal,
): Promise<BuildOutcome> {
  const session = await openSession(engine, request, aborted)
  const signal = AbortSignal.any([aborted, session.failed])
  try {
    const answer = await engine.open({
      method: 'POST',
      path: ['build'],
      query: {
        version: '2',
        session: session.id,
        dockerfile: request.dockerfile,
        target: request.target ?? undefined,
        t: request.tag,
        labels: request.labels,
        buildargs: request.proxies,
        networkmode: 'host',
      },
      upload: request.context,
      signal,
      timeoutMs: 0,
    })
    const progress = createProgress()
    let failure: string | null = null
    for await (const { id, aux, error } of readJsonLines<Message>(answer)) {
      if (error !== undefined) failure = error
      if (id !== 'moby.buildkit.trace' || typeof aux !== 'string') continue
      const lines = progress.read(Buffer.from(aux, 'base64'))
      if (lines !== '') await say(lines)
    }
    await say(progress.rest())
    signal.throwIfAborted()
    if (failure === null) return { ok: true }
    return { ok: false, message: failure, code: exitCodeIn(failure), image: progress.failedImage() }
  } catch (error) {
    session.failed.throwIfAborted()
    throw error
  } finally {
    session.end()
  }
}

/** Returns the exit status of the failed step, which BuildKit puts at the end of its message; 1 without a status. */
function exitCodeIn(message: string): number {
  const code = Number(/exit code: (\d{1,3})$/.exec(message.trim())?.[1] ?? 1)
  return code === 0 ? 1 : code
}

/*
 * A BuildKit session is a connection on which the daemon calls the client, by gRPC over HTTP/2: for the secrets of a
 * step at its beginning, and for credentials when a registry requires them. So they are in no request, no layer and no
 * history.
 */

export interface BuildAnswers {
  /** The secrets by name. Steps mount the secrets that they name. */
  readonly secrets: Readonly<Record<string, string>>
  /** Returns the credentials for a registry, named as in image references; null without credentials. */
  readonly credentialsFor: (registry: string) => Promise<RegistryCredentials | null>
}

export interface BuildSession {
  readonly id: string
  /** Aborts with the error of `credentialsFor`, which the daemon would report as a failure of the Dockerfile. */
  readonly failed: AbortSignal
  end(): void
}

const secretMethod = '/moby.buildkit.secrets.v1.Secrets/GetSecret'
/**
 * Newer daemons first ask for a token (`FetchToken` and similar methods), and call this method when the client does not
 * know the other.
 */
const credentialsMethod = '/moby.filesync.v1.Auth/Credentials'
const healthMethod = '/grpc.health.v1.Health/Check'
const [ok, notFound, unimplemented] = [0, 5, 12]
const prefixBytes = 5
const mostRequestBytes = 64_000
/** A Dockerfile's front end may ask for many images at once, and each answer reads the database. */
const mostAnswersAtOnce = 8

export async function openSession(
  engine: Pick<Engine, 'upgrade'>,
  { secrets, credentialsFor: find }: BuildAnswers,
  signal: AbortSignal,
): Promise<BuildSession> {
  const id = randomUUID()
  const failure = new AbortController()
  const socket = await engine.upgrade({
    method: 'POST',
    path: ['session'],
    headers: {
      upgrade: 'h2c',
      'x-docker-expose-session-uuid': id,
      'x-docker-expose-session-name': 'fairlead',
      'x-docker-expose-session-sharedkey': id,
      'x-docker-expose-session-grpc-method': [secretMethod, credentialsMethod],
    },
    signal,
  })
  socket.on('error', () => undefined)
  const credentialsFor: typeof find = (registry) =>
    find(registry).catch((error: unknown) => {
      failure.abort(error)
      throw error
    })
  const session: Http2Session = performServerHandshake(socket, {
    settings: { maxConcurrentStreams: mostAnswersAtOnce },
  })
  session.on('error', () => undefined)
  session.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', () => undefined)
    void answer(stream, String(headers[':path']), { secrets, credentialsFor }).catch(() => stream.close())
  })
  return {
    id,
    failed: failure.signal,
    end() {
      session.destroy()
      socket.destroy()
    },
  }
}

async function answer(
  stream: ServerHttp2Stream,
  path: string,
  { secrets, credentialsFor }: BuildAnswers,
): Promise<void> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > mostRequestBytes) throw new Error('the request is too long')
  }
  const message = Buffer.concat(chunks).subarray(prefixBytes)
  if (path === healthMethod) return reply(stream, numberField(1, 1))
  if (path === credentialsMethod) return reply(stream, await credentialsMessage(textOf(message, 1), credentialsFor))
  if (path !== secretMethod) return refuse(stream, unimplemented, 'unknown method')
  const name = textOf(message, 1)
  const value = Object.hasOwn(secrets, name) ? secrets[name] : undefined
  if (value === undefined) return refuse(stream, notFound, `the app has no variable ${encodeURIComponent(name)}`)
  reply(stream, bytesField(1, Buffer.from(value)))
}

/** Returns the answer for a host. After an empty answer the daemon asks the registry without credentials. */
async function credentialsMessage(host: string, credentialsFor: BuildAnswers['credentialsFor']): Promise<Buffer> {
  const registry = parseRegistry(host)
  const credentials = registry === null ? null : await credentialsFor(registry)
  if (credentials === null) return Buffer.alloc(0)
  const { username, password } = credentials
  return Buffer.concat([bytesField(1, Buffer.from(username)), bytesField(2, Buffer.from(password))])
}

function reply(stream: ServerHttp2Stream, message: Buffer): void {
  const prefix = Buffer.alloc(prefixBytes)
  prefix.writeUInt32BE(message.length, 1)
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': ok }))
  stream.end(Buffer.concat([prefix, message]))
}

function refuse(stream: ServerHttp2Stream, code: number, message: string): void {
  const head = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': code, 'grpc-message': message }
  stream.respond(head, { endStream: true })
}

/** Converts messages of BuildKit about build steps into lines for the log. */
export interface Progress {
  /** @param message a `StatusResponse` of BuildKit's control API */
  read(message: Buffer): string
  rest(): string
  /** Returns the first registry image that the build could not inspect; null without a failure. */
  failedImage(): FailedImage | null
}

/** An image that a Dockerfile uses as a base, copies from, or uses as its front end. */
interface FailedImage {
  readonly reference: ImageReference
  /** BuildKit's message, with the registry's answer. */
  readonly reason: string
}

/** Field numbers in BuildKit's `control.proto`. */
const statusFields = { vertexes: 1, logs: 3 }
const vertexFields = { digest: 1, name: 3, cached: 4, started: 5, error: 7 }
const logFields = { vertex: 1, message: 4 }
const imageStep =
  /^(?:(?:\[[^\]]*\] )?(?:load metadata for|FROM)|resolve image config for) (?:docker-image:\/\/)?(\S+)$/

export function createProgress(): Progress {
  /** The output of each step after its last whole line. */
  const unfinished = new Map<string, string>()
  const decoders = new Map<string, StringDecoder>()
  const named = new Set<string>()
  let failed: FailedImage | null = null

  const vertexText = (message: Buffer): string => {
    const { digest, name, cached, started, error } = vertexOf(message)
    if (error !== '') failed ??= failedImageOf(name, error)
    // Internal steps are the same in every build.
    if (!started || named.has(digest) || name.startsWith('[internal]')) return ''
    named.add(digest)
    return `${oneLine(name)}${cached ? ' (from the cache)' : ''}\n`
  }
  const logText = (message: Buffer): string => {
    let [vertex, bytes] = ['', Buffer.alloc(0)]
    for (const { number, value } of readFields(message)) {
      if (typeof value === 'bigint') continue
      if (number === logFields.vertex) vertex = value.toString('utf8')
      if (number === logFields.message) bytes = Buffer.from(value)
    }
    const decoder = decoders.get(vertex) ?? new StringDecoder('utf8')
    decoders.set(vertex, decoder)
    const text = (unfinished.get(vertex) ?? '') + decoder.write(bytes)
    const end = text.length > mostUnfinished ? text.length : text.lastIndexOf('\n') + 1
    unfinished.set(vertex, text.slice(end))
    return text.slice(0, end)
  }

  return {
    read(message) {
      let lines = ''
      for (const { number, value } of readFields(message)) {
        if (typeof value === 'bigint') continue
        if (number === statusFields.vertexes) lines += vertexText(value)
        if (number === statusFields.logs) lines += logText(value)
      }
      return lines
    },
    rest: () =>
      [...unfinished.values()]
        .filter((text) => text !== '')
        .map((text) => `${text}\n`)
        .join(''),
    failedImage: () => failed,
  }
}

function failedImageOf(name: string, reason: string): FailedImage | null {
  // The first failure cancels concurrent steps.
  if (reason.includes('context canceled')) return null
  const reference = parseImageReference(imageStep.exec(name)?.[1] ?? '')
  return 'problem' in reference ? null : { reference, reason }
}

/** Output without an end of line must not fill the server's memory. */
const mostUnfinished = 64_000

function vertexOf(message: Buffer) {
  const vertex = { digest: '', name: '', cached: false, started: false, error: '' }
  for (const { number, value } of readFields(message)) {
    if (number === vertexFields.digest) vertex.digest = String(value)
    if (number === vertexFields.name) vertex.name = String(value)
    if (number === vertexFields.cached) vertex.cached = value === 1n
    if (number === vertexFields.started) vertex.started = true
    if (number === vertexFields.error) vertex.error = String(value)
  }
  return vertex
}

const oneLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' ').slice(0, 1_000)
