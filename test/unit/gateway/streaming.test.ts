import { once } from 'node:events'
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import {
  ask,
  createScope,
  HOST,
  rawClient,
  startApp,
  startGateway,
  startRawApp,
  textOf,
} from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(() => scope.end())

it('delivers each server-sent event when it is sent', async () => {
  const streams: ServerResponse[] = []
  const app = await startApp(scope, (_, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    streams.push(res)
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const outgoing = request({ host: HOST, port, agent: false }).end()
  // The head arrives although there is no event yet.
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  for (const event of ['data: 1\n\n', 'data: 2\n\n']) {
    streams[0]?.write(event)
    const [chunk] = (await once(incoming, 'data')) as [Buffer]
    expect(chunk.toString()).toBe(event)
    expect(incoming.complete).toBe(false)
  }
  streams[0]?.end()
  await once(incoming, 'end')
})

it('shows the app the head of an upload before its body, and the client the response before the upload ends', async () => {
  const app = await startApp(scope, (req, res) => {
    res.writeHead(200).flushHeaders()
    req.pipe(res)
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const outgoing = request({
    host: HOST,
    port,
    method: 'POST',
    headers: { 'Transfer-Encoding': 'chunked' },
    agent: false,
  })
  outgoing.flushHeaders()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  for (const text of ['one', 'two']) {
    outgoing.write(text)
    const [chunk] = (await once(incoming, 'data')) as [Buffer]
    expect(chunk.toString()).toBe(text)
  }
  outgoing.end()
  await once(incoming, 'end')
})

it('lets an app answer first and continue to read the upload, which a drain waits for', async () => {
  const uploaded = Promise.withResolvers<string>()
  const app = await startApp(scope, (req, res) => {
    res.writeHead(202).end('taken')
    void textOf(req).then(uploaded.resolve, uploaded.reject)
  })
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc')
  await client.until('\r\n0\r\n\r\n')
  await gateway.route('app', null)
  let drained = false
  const drain = gateway.drain(app.upstream, { timeoutMs: 2 ** 30 }).then(() => (drained = true))
  // A second complete exchange ensures that all pending work is done.
  expect((await ask(port)).status).toBe(503)
  expect(drained).toBe(false)
  client.socket.write('def')
  expect(await uploaded.promise).toBe('abcdef')
  await drain
})

it.each(['keep-alive', 'close'])(
  'reads the whole upload to an app that has answered, with Connection: %s',
  async (option) => {
    const uploaded = Promise.withResolvers<number>()
    const app = await startApp(scope, (req, res) => {
      res.writeHead(202).end('taken')
      void textOf(req).then(({ length }) => uploaded.resolve(length), uploaded.reject)
    })
    const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
    const client = await rawClient(scope, port, { allowHalfOpen: true })
    const ended = option === 'close' ? once(client.socket, 'end') : client.until('\r\n0\r\n\r\n')
    client.socket.write(`POST / HTTP/1.1\r\nHost: a\r\nConnection: ${option}\r\nContent-Length: 8000003\r\n\r\nabc`)
    await ended
    client.socket.write('x'.repeat(8_000_000))
    expect(await uploaded.promise).toBe(8_000_003)
    await gateway.route('app', null)
    await gateway.drain(app.upstream, { timeoutMs: 2 ** 30 })
  },
)

it('cancels an upload whose client leaves after its response', async () => {
  const canceled = Promise.withResolvers<boolean>()
  const app = await startApp(scope, (req, res) => {
    res.writeHead(202).end('taken')
    // After the app's response, Node reports this to the app only through the connection.
    req.socket.on('close', () => canceled.resolve(req.complete))
    req.resume()
  })
  app.server.keepAliveTimeout = 0
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc')
  await client.until('\r\n0\r\n\r\n')
  client.socket.destroy()
  expect(await canceled.promise).toBe(false)
  await gateway.route('app', null)
  await gateway.drain(app.upstream, { timeoutMs: 2 ** 30 })
})

it('delivers an app’s refusal of an upload when the app closes the connection', async () => {
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', () => socket.end('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig'))
  })
  const { port } = await startGateway(scope, { upstream })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  scope.defer(() => agent.destroy())
  for (let i = 0; i < 3; i += 1) {
    const answer = await ask(port, { method: 'POST', body: 'x'.repeat(1_000_000), agent })
    expect([answer.status, answer.body]).toEqual([413, 'big'])
  }
})

it('answers a client that half-closes after the request, for as long as the app sends data', async () => {
  const ended = Promise.withResolvers<void>()
  const canceled = Promise.withResolvers<string | undefined>()
  const app = await startApp(scope, async (req, res) => {
    res.on('close', () => !res.writableFinished && canceled.resolve(req.url))
    if (req.url === '/silent') return
    await ended.promise
    res.write('first')
    setImmediate(() => res.end('second'))
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const [waiting, silent] = [await rawClient(scope, port), await rawClient(scope, port)]
  waiting.socket.end('GET / HTTP/1.1\r\nHost: a\r\n\r\n', () => ended.resolve())
  silent.socket.end('GET /silent HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(await waiting.closed()).toMatch(/^HTTP\/1\.1 200 .*first.*second/s)
  expect(await canceled.promise).toBe('/silent')
  expect(await silent.closed()).toBe('')
})

/** Uploads to an app that reads the head and the first bytes, answers, and closes the connection in some way. */
async function uploadTo(close: (socket: Socket) => void): Promise<{ status: number; body: string }[]> {
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', () => close(socket.pause()))
  })
  const { port } = await startGateway(scope, { upstream })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  scope.defer(() => agent.destroy())
  const answers: { status: number; body: string }[] = []
  for (let i = 0; i < 10; i += 1) {
    const { status, body } = await ask(port, { method: 'POST', body: 'x'.repeat(4_000_000), agent })
    answers.push({ status, body })
  }
  return answers
}

it.each<[string, (socket: Socket) => void]>([
  [
    'resets the connection',
    (socket) => {
      socket.write('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig', () =>
        socket.destroy(),
      )
    },
  ],
  [
    'ends and then resets the connection, which ends the response',
    (socket) => {
      socket.end('HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\nbig', () => socket.destroy())
    },
  ],
])('delivers the response to an upload when the app reads no more of it and %s', async (_, close) => {
  expect(new Set((await uploadTo(close)).map(({ status, body }) => `${status} ${body}`))).toEqual(new Set(['413 big']))
})

it('cuts the client off when a response without a length is reset during the upload', async () => {
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', () => {
      socket.pause().write('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf', () => socket.destroy())
    })
  })
  const { port } = await startGateway(scope, { upstream })
  for (let i = 0; i < 10; i += 1) {
    const client = await rawClient(scope, port)
    client.socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n${'x'.repeat(4_000_000)}`)
    expect(await client.closed()).not.toContain('\r\n0\r\n\r\n')
  }
})

it('cancels the work of the app when the client leaves', async () => {
  const started = Promise.withResolvers<void>()
  const canceled = Promise.withResolvers<void>()
  const app = await startApp(scope, (req, res) => {
    res.on('close', () => canceled.resolve())
    if (req.url === '/streaming') res.write('first')
    started.resolve()
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write('GET /streaming HTTP/1.1\r\nHost: a\r\n\r\n')
  await client.until('first')
  client.socket.resetAndDestroy()
  await canceled.promise
})

it('also cancels before a response and in the middle of an upload', async () => {
  for (const head of [
    'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc',
  ]) {
    const started = Promise.withResolvers<void>()
    const canceled = Promise.withResolvers<void>()
    const app = await startApp(scope, (req, res) => {
      req.on('error', () => {})
      res.on('close', () => canceled.resolve())
      started.resolve()
    })
    const { port } = await startGateway(scope, { upstream: app.upstream })
    const client = await rawClient(scope, port)
    client.socket.write(head)
    await started.promise
    client.socket.resetAndDestroy()
    await canceled.promise
  }
})

it.each([
  ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf'],
  ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
])('cuts the client off when the app dies in the middle of a response with %s', async (_, half) => {
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', () => socket.write(half, () => socket.on('data', () => {})))
    scope.defer(() => socket.destroy())
    app = socket.destroy.bind(socket)
  })
  let app = () => {}
  const { port } = await startGateway(scope, { upstream })
  const outgoing = request({ host: HOST, port, agent: false }).end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  const [chunk] = (await once(incoming, 'data')) as [Buffer]
  expect(chunk.toString()).toBe('half')
  const failed = once(incoming, 'error')
  app()
  expect(((await failed)[0] as NodeJS.ErrnoException).code).toBe('ECONNRESET')
  expect(incoming.complete).toBe(false)
})

it.each(['1.0', '1.1'])('cuts an HTTP/%s client off when a response without a length is reset', async (version) => {
  let reset = () => {}
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf'))
    reset = () => socket.resetAndDestroy()
  })
  const { port } = await startGateway(scope, { upstream })
  const client = await rawClient(scope, port)
  const orderly = once(client.socket, 'end').then(() => 'end')
  const torn = new Promise((resolve) =>
    client.socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code)),
  )
  client.socket.write(`GET / HTTP/${version}\r\nHost: a\r\n\r\n`)
  await client.until('half')
  reset()
  if (version === '1.0') expect(await Promise.race([orderly, torn])).toBe('ECONNRESET')
  else expect(await client.closed()).not.toContain('\r\n0\r\n\r\n')
})

it('passes on a response that ends with its connection', async () => {
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', () => socket.end('HTTP/1.0 200 OK\r\n\r\nwhole'))
  })
  const { port } = await startGateway(scope, { upstream })
  expect((await ask(port)).body).toBe('whole')
})
