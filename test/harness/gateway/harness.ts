import { once } from 'node:events'
import {
  type Agent,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  request,
  type Server,
} from 'node:http'
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from 'node:net'
import type { Logger } from 'pino'
import type { Upstream } from '../../../server/src/gateway/client.ts'
import { addressOf } from '../addresses.ts'
import { freePort } from '../ports.ts'
import { createGateway } from './channel.ts'
import { silent } from './silent.ts'

export { silent }

export const HOST = '127.0.0.1'

/** Resources that a test started. The end of the test stops them in reverse order. */
export interface Scope {
  defer(stop: () => unknown): void
  end(): Promise<void>
}

export function createScope(): Scope {
  const stops: (() => unknown)[] = []
  return {
    defer: (stop) => void stops.push(stop),
    async end() {
      for (const stop of stops.splice(0).reverse()) await stop()
    },
  }
}

export interface TestApp {
  readonly server: Server
  readonly upstream: Upstream
  stop(): Promise<void>
}

let serial = 0

/** An HTTP server that stands for one release of an app. */
export async function startApp(scope: Scope, handler: RequestListener): Promise<TestApp> {
  const server = createServer(handler)
  const stop = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  scope.defer(stop)
  return { server, upstream: upstreamAt(await listen(server)), stop }
}

/** An app that exchanges raw bytes. Every connection is destroyed at the end. */
export async function startRawApp(scope: Scope, onConnection: (socket: Socket) => void): Promise<Upstream> {
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  })
  scope.defer(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return upstreamAt(await listen(server))
}

/** A release with one instance on each port. */
export function upstreamAt(port: number, ...others: number[]): Upstream {
  serial += 1
  const endpointAt = (each: number) => ({ host: HOST, port: each })
  return { deploymentId: `dep_${serial}`, endpoints: [endpointAt(port), ...others.map(endpointAt)] }
}

export function portOf(upstream: Upstream): number {
  return addressOf(upstream).port
}

async function listen(server: Server | TcpServer): Promise<number> {
  server.listen(0, HOST)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

export interface TestGateway {
  readonly gateway: ReturnType<typeof createGateway>
  readonly port: number
}

/** A gateway with one app, `app`, on a separate port. */
export async function startGateway(
  scope: Scope,
  {
    upstream = null,
    isTrustedProxy = () => false,
    logger = silent,
  }: { upstream?: Upstream | null; isTrustedProxy?: () => boolean; logger?: Logger } = {},
): Promise<TestGateway> {
  const gateway = createGateway({ log: logger, host: HOST, apps: { mode: 'ports' }, isTrustedProxy })
  const port = await freePort()
  await gateway.open('app', { port })
  scope.defer(() => gateway.stop({ timeoutMs: 0 }))
  await gateway.route('app', upstream)
  return { gateway, port }
}

/** Opens a second app, `other`, that answers `well` to everything. Resolves with its port. */
export async function openOther(scope: Scope, gateway: TestGateway['gateway']): Promise<number> {
  const other = await startApp(scope, (_, res) => res.end('well'))
  const port = await freePort()
  await gateway.open('other', { port })
  await gateway.route('other', other.upstream)
  return port
}

/** Rejects with the first uncaught exception, which would end a server's process. */
export function processDeath(scope: Scope): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => {})
  process.on('uncaughtException', reject)
  process.on('unhandledRejection', reject)
  scope.defer(() => {
    process.off('uncaughtException', reject)
    process.off('unhandledRejection', reject)
  })
  return promise
}

export interface Answer {
  readonly status: number
  readonly reason: string
  readonly headers: IncomingHttpHeaders
  readonly rawHeaders: string[]
  readonly trailers: NodeJS.Dict<string>
  readonly body: string
}

export interface Ask {
  method?: string
  path?: string
  headers?: Record<string, string | string[]> | string[]
  body?: string
  agent?: Agent | false
}

/** A listener of this machine: a port, or the path of a Unix socket. */
export type Place = number | string

const placeOf = (place: Place) => (typeof place === 'string' ? { socketPath: place } : { host: HOST, port: place })

/** One complete request and its complete response; rejects a truncated response. */
export async function ask(place: Place, { body, agent = false, ...options }: Ask = {}): Promise<Answer> {
  const outgoing = request({ ...placeOf(place), agent, ...options })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  outgoing.end(body)
  const [incoming] = await answered
  const chunks = await incoming.toArray()
  return {
    status: incoming.statusCode ?? 0,
    reason: incoming.statusMessage ?? '',
    headers: incoming.headers,
    rawHeaders: incoming.rawHeaders,
    trailers: incoming.trailers,
    body: Buffer.concat(chunks).toString(),
  }
}

/** A raw connection whose received bytes a test can wait for. */
export interface RawClient {
  readonly socket: Socket
  received(): string
  /** Resolves with everything received as soon as it contains `text`. */
  until(text: string): Promise<string>
  /** Resolves with all received bytes when the connection has ended, cleanly or not. */
  closed(): Promise<string>
}

export async function rawClient(scope: Scope, place: Place, { allowHalfOpen = false } = {}): Promise<RawClient> {
  const target = typeof place === 'string' ? { path: place } : { host: HOST, port: place }
  const socket = connect({ ...target, allowHalfOpen })
  scope.defer(() => socket.destroy())
  let received = ''
  let over = false
  socket.on('error', () => {})
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1')
    socket.emit('more')
  })
  socket.on('close', () => {
    over = true
    socket.emit('more')
  })
  await once(socket, 'connect')
  return {
    socket,
    received: () => received,
    async until(text) {
      while (!received.includes(text)) {
        if (over) throw new Error(`the connection ended before ${JSON.stringify(text)}: ${JSON.stringify(received)}`)
        await once(socket, 'more')
      }
      return received
    },
    async closed() {
      while (!over) await once(socket, 'more').catch(() => {})
      return received
    },
  }
}

/** Collects all parts of an HTTP message. */
export async function textOf(message: IncomingMessage): Promise<string> {
  return Buffer.concat(await message.toArray()).toString()
}
