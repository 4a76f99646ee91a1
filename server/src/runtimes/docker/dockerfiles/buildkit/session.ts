import { randomUUID } from 'node:crypto'
import { type Http2Session, performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import type { Engine } from '../../engine/engine.ts'
import { bytesField, numberField, textOf } from './fields.ts'

/*
 * A session of BuildKit: a connection on which the daemon calls the client, by gRPC over HTTP/2. The daemon asks for the
 * secrets that a step mounts when the step begins, so that they are in no request, no layer and no history.
 */

export interface BuildSession {
  /** Names the session in the request that begins a build. */
  readonly id: string
  end(): void
}

const methods = {
  secret: '/moby.buildkit.secrets.v1.Secrets/GetSecret',
  health: '/grpc.health.v1.Health/Check',
} as const
/** Codes of gRPC. */
const [ok, notFound, unimplemented] = [0, 5, 12]
const prefixBytes = 5
const mostRequestBytes = 64_000

/** Opens a session that gives out these secrets by their names. */
export async function openSession(
  engine: Pick<Engine, 'upgrade'>,
  secrets: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<BuildSession> {
  const id = randomUUID()
  const socket = await engine.upgrade({
    method: 'POST',
    path: ['session'],
    headers: {
      upgrade: 'h2c',
      'x-docker-expose-session-uuid': id,
      'x-docker-expose-session-name': 'fairlead',
      'x-docker-expose-session-sharedkey': id,
      'x-docker-expose-session-grpc-method': methods.secret,
    },
    signal,
  })
  socket.on('error', () => undefined)
  const session: Http2Session = performServerHandshake(socket)
  session.on('error', () => undefined)
  session.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', () => undefined)
    void answer(stream, String(headers[':path']), secrets).catch(() => stream.close())
  })
  return {
    id,
    end() {
      session.destroy()
      socket.destroy()
    },
  }
}

async function answer(
  stream: ServerHttp2Stream,
  path: string,
  secrets: Readonly<Record<string, string>>,
): Promise<void> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > mostRequestBytes) throw new Error('the request is too long')
  }
  const message = Buffer.concat(chunks).subarray(prefixBytes)
  if (path === methods.health) return reply(stream, numberField(1, 1))
  if (path !== methods.secret) return refuse(stream, unimplemented, 'unknown method')
  const name = textOf(message, 1)
  const value = Object.hasOwn(secrets, name) ? secrets[name] : undefined
  if (value === undefined) return refuse(stream, notFound, `the app has no variable ${encodeURIComponent(name)}`)
  reply(stream, bytesField(1, Buffer.from(value)))
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
