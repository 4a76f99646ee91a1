import { randomUUID } from 'node:crypto'
import { type Http2Session, performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import { parseRegistry } from '../../../../contract/image-reference.ts'
import type { RegistryCredentials } from '../../../runtime.ts'
import type { Engine } from '../../engine/engine.ts'
import { bytesField, numberField, textOf } from './fields.ts'

/*
 * A session of BuildKit: a connection on which the daemon calls the client, by gRPC over HTTP/2. The daemon asks for the
 * secrets that a step mounts when the step begins, and for the credentials of a registry when that asks for some, so that they are
 * in no request, no layer and no history.
 */

/** The answers to the daemon's questions. */
export interface BuildAnswers {
  /** Mounted by steps that ask for them by name. */
  readonly secrets: Readonly<Record<string, string>>
  /** Returns the credentials for a registry, which is named as references of images have it; null without. */
  readonly credentialsFor: (registry: string) => Promise<RegistryCredentials | null>
}

export interface BuildSession {
  /** Names the session in the request that begins a build. */
  readonly id: string
  /** Aborts with the error of `credentialsFor`, which the daemon would tell as a failure of the Dockerfile. */
  readonly failed: AbortSignal
  end(): void
}

const secretMethod = '/moby.buildkit.secrets.v1.Secrets/GetSecret'
/** Newer daemons ask for a token first (`FetchToken` and the like of the same service), and for this when that is unknown. */
const credentialsMethod = '/moby.filesync.v1.Auth/Credentials'
const healthMethod = '/grpc.health.v1.Health/Check'
/** Codes of gRPC. */
const [ok, notFound, unimplemented] = [0, 5, 12]
const prefixBytes = 5
const mostRequestBytes = 64_000
/** A front end of the Dockerfile's own may ask for many images at once, and each question for credentials reads the database. */
const mostAnswersAtOnce = 8

/** Opens a session that answers the daemon of a build. */
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

/** Returns the answer for a host; an empty one makes the daemon ask the registry without credentials. */
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
