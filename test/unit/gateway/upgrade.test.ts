import { once } from 'node:events'
import type { Socket } from 'node:net'
import { afterEach, expect, it, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import {
  createScope,
  HOST,
  rawClient,
  startApp,
  startGateway,
  startRawApp,
  upstreamAt,
} from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(async () => {
  vi.useRealTimers()
  await scope.end()
})

async function startEcho() {
  const app = await startApp(scope, (_, res) => res.end('plain'))
  const server = new WebSocketServer({ server: app.server })
  server.on('connection', (socket: WebSocket) => {
    socket.on('error', () => {})
    socket.on('message', (data: Buffer) => socket.send(data))
  })
  scope.defer(() => {
    for (const socket of server.clients) socket.terminate()
  })
  return { app, server }
}

async function openSocket(port: number): Promise<WebSocket> {
  const socket = new WebSocket(`ws://${HOST}:${port}/chat`)
  socket.on('error', () => {})
  scope.defer(() => socket.terminate())
  await once(socket, 'open')
  return socket
}

async function echo(socket: WebSocket, data: Buffer): Promise<Buffer> {
  const message = once(socket, 'message') as Promise<[Buffer]>
  socket.send(data)
  return (await message)[0]
}

/** An app that reads the head of a request, and then handles a possibly half-open connection as it likes. */
async function startHalfOpenApp(onRequest: (socket: Socket) => unknown) {
  return startRawApp(scope, (socket) => {
    socket.allowHalfOpen = true
    socket.once('data', () => onRequest(socket.pause()))
  })
}

const HANDSHAKE =
  'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: custom\r\nX-Custom: 1\r\n\r\n'

it('carries a WebSocket both ways, large messages included', async () => {
  const { app } = await startEcho()
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const socket = new WebSocket(`ws://${HOST}:${port}/chat`)
  const upgraded = once(socket, 'upgrade')
  await once(socket, 'open')
  const [response] = await upgraded
  expect(response.headers['x-fairlead-deployment']).toBe(app.upstream.deploymentId)
  const large = Buffer.alloc(5_000_000, 'x')
  expect((await echo(socket, large)).equals(large)).toBe(true)
  expect((await echo(socket, Buffer.from('hi'))).toString()).toBe('hi')
  const closed = once(socket, 'close')
  socket.close(4001)
  expect((await closed)[0]).toBe(4001)
})

it('keeps a WebSocket after a switch, until the drain ends', async () => {
  const old = await startEcho()
  const next = await startEcho()
  const { gateway, port } = await startGateway(scope, { upstream: old.app.upstream })
  const socket = await openSocket(port)
  expect(await gateway.route('app', next.app.upstream)).toEqual(old.app.upstream)

  const closed = once(socket, 'close')
  // The drain times out only after the echo has arrived.
  const timeless = new AbortController()
  const drained = gateway.drain(old.app.upstream, { timeoutMs: 2 ** 30, signal: timeless.signal })
  expect((await echo(socket, Buffer.from('still here'))).toString()).toBe('still here')
  timeless.abort()
  await drained
  await gateway.drain(old.app.upstream, { timeoutMs: 300 })
  expect((await closed)[0]).toBe(1006)
  expect((await echo(await openSocket(port), Buffer.from('new'))).toString()).toBe('new')
  expect(next.server.clients.size).toBe(1)
})

it('ends the drain as soon as the last WebSocket has closed', async () => {
  const { app } = await startEcho()
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const socket = await openSocket(port)
  await gateway.route('app', null)
  const drained = gateway.drain(app.upstream, { timeoutMs: 2 ** 30 })
  socket.close()
  await drained
})

it('tells each side when the other side leaves', async () => {
  const { app, server } = await startEcho()
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const first = await openSocket(port)
  const gone = once([...server.clients][0] as WebSocket, 'close')
  first.terminate()
  await gone
  const second = await openSocket(port)
  const closed = once(second, 'close')
  for (const socket of server.clients) socket.terminate()
  await closed
})

const SWITCH = 'HTTP/1.1 101 Go On\r\nConnection: Upgrade\r\nUpgrade: custom\r\n\r\n'
const LARGE = 'x'.repeat(5_000_000)

it('carries all data that the client sends after the app has ended its half', async () => {
  const received = Promise.withResolvers<string>()
  const upstream = await startHalfOpenApp(async (socket) => {
    socket.end(`${SWITCH}bye`)
    received.resolve((await socket.toArray()).join(''))
  })
  const { gateway, port } = await startGateway(scope, { upstream })
  const client = await rawClient(scope, port, { allowHalfOpen: true })
  const ended = once(client.socket, 'end')
  client.socket.write(HANDSHAKE)
  await ended
  client.socket.write('after your end ')
  client.socket.end(LARGE)
  expect(await received.promise).toBe(`after your end ${LARGE}`)
  expect(client.received().endsWith('bye')).toBe(true)
  await gateway.route('app', null)
  await gateway.drain(upstream, { timeoutMs: 2 ** 30 })
})

it('carries all data that the app sends after the client has ended its half', async () => {
  const upstream = await startHalfOpenApp(async (socket) => {
    socket.write(SWITCH)
    socket.end(`${(await socket.toArray()).join('')} and ${LARGE}`)
  })
  const { gateway, port } = await startGateway(scope, { upstream })
  const client = await rawClient(scope, port, { allowHalfOpen: true })
  client.socket.write(HANDSHAKE)
  await client.until('101')
  client.socket.end('the last')
  expect((await client.closed()).endsWith(`the last and ${LARGE}`)).toBe(true)
  await gateway.route('app', null)
  await gateway.drain(upstream, { timeoutMs: 2 ** 30 })
})

it('delivers the last bytes of an app that resets the connection and stops reading', async () => {
  const upstream = await startHalfOpenApp((socket) => {
    socket.write(SWITCH, () => socket.end('bye', () => socket.destroy()))
  })
  const { port } = await startGateway(scope, { upstream })
  for (let i = 0; i < 10; i += 1) {
    const client = await rawClient(scope, port)
    client.socket.write(HANDSHAKE)
    client.socket.write(LARGE)
    expect((await client.closed()).endsWith('bye')).toBe(true)
  }
})

it('does not wait for a silent client that keeps its half open after the app has ended its half', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const received = Promise.withResolvers<unknown>()
  const upstream = await startHalfOpenApp((socket) => {
    socket.once('data', received.resolve)
    socket.end(`${SWITCH}bye`)
    socket.resume()
  })
  const { gateway, port } = await startGateway(scope, { upstream })
  const client = await rawClient(scope, port, { allowHalfOpen: true })
  const ended = once(client.socket, 'end')
  client.socket.write(HANDSHAKE)
  await ended
  await gateway.route('app', null)
  let drained = false
  const drain = gateway.drain(upstream, { timeoutMs: 2 ** 30 }).then(() => (drained = true))
  await vi.advanceTimersByTimeAsync(9_000)
  client.socket.write('more')
  await received.promise
  await vi.advanceTimersByTimeAsync(9_000)
  expect(drained).toBe(false)
  await vi.advanceTimersByTimeAsync(1_000)
  await drain
})

it('delivers bytes that follow the handshake at once, in both directions', async () => {
  const upstream = await startRawApp(scope, (socket) => {
    let received = ''
    socket.on('data', (chunk) => {
      received += chunk.toString()
      if (received.endsWith('\r\n\r\n')) {
        socket.write(
          'HTTP/1.1 101 Go On\r\nConnection: Upgrade\r\nUpgrade: custom\r\nX-Own: 1\r\nX-own: 2\r\n\r\nearly-app',
        )
      } else if (received.endsWith('early-client')) socket.end(' and bye')
    })
  })
  const { port } = await startGateway(scope, { upstream })
  const client = await rawClient(scope, port)
  client.socket.write(`${HANDSHAKE}early-client`)
  const received = await client.closed()
  const deployment = `X-Fairlead-Deployment: ${upstream.deploymentId}`
  expect(received).toBe(
    `HTTP/1.1 101 Go On\r\nX-Own: 1\r\nX-own: 2\r\n${deployment}\r\nConnection: Upgrade\r\nUpgrade: custom\r\n\r\nearly-app and bye`,
  )
})

it('passes on the response of an app that does not switch protocols', async () => {
  const app = await startApp(scope, (req, res) => {
    res.writeHead(426, { 'X-Upgrade': String(req.headers.upgrade) }).end(`${'x'.repeat(1_000_000)}no thanks`)
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write(HANDSHAKE)
  const received = await client.closed()
  expect(received).toMatch(/^HTTP\/1\.1 426 /)
  expect(received).toContain('X-Upgrade: custom')
  expect(received).toContain('no thanks')
  expect(received.length).toBeGreaterThan(1_000_000)
  expect(received).toContain(`X-Fairlead-Deployment: ${app.upstream.deploymentId}`)
})

it('answers 503 and 502 to an upgrade like to any other request', async () => {
  const { gateway, port } = await startGateway(scope)
  const none = await rawClient(scope, port)
  none.socket.write(HANDSHAKE)
  expect(await none.closed()).toMatch(/^HTTP\/1\.1 503 [\s\S]*Retry-After: 1/)
  await gateway.route('app', upstreamAt(1))
  const dead = await rawClient(scope, port)
  dead.socket.write(HANDSHAKE)
  expect(await dead.closed()).toMatch(/^HTTP\/1\.1 502 /)
})

it('treats HTTP/2 over an upgrade as a plain request', async () => {
  const { app } = await startEcho()
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write(
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n',
  )
  expect(await client.until('plain')).toMatch(/^HTTP\/1\.1 200 /)
})
