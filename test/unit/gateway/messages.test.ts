import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { afterEach, expect, it } from 'vitest'
import {
  ask,
  createScope,
  HOST,
  portOf,
  rawClient,
  startApp,
  startGateway,
  textOf,
} from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(() => scope.end())

/** Framing, number of pieces and length of bodies: short, long, and near the sizes of buffers. */
const BODIES = [0, 1, 2, 256, 8191, 8192, 8193, 65_535, 65_536, 65_537, 300_000].flatMap((length) =>
  (['length', 'chunks'] as const).flatMap((framing) => [1, 2].map((pieces) => [framing, pieces, length] as const)),
)

function bodyOf(length: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) % 256))
}

it('answers HEAD, 204 and 304 without a body and keeps the connection in order', async () => {
  const app = await startApp(scope, (req, res) => {
    if (req.url === '/204') res.writeHead(204).end()
    else if (req.url === '/304') res.writeHead(304, { ETag: '"x"', 'Content-Length': '9' }).end()
    else res.setHeader('Content-Length', '11').end('hello world')
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  scope.defer(() => agent.destroy())
  const answers = []
  for (const [method, path] of [
    ['HEAD', '/'],
    ['GET', '/204'],
    ['GET', '/304'],
    ['GET', '/'],
    ['HEAD', '/'],
  ] as const) {
    answers.push(await ask(port, { method, path, agent }))
  }
  expect(answers.map(({ status, body }) => [status, body])).toEqual([
    [200, ''],
    [204, ''],
    [304, ''],
    [200, 'hello world'],
    [200, ''],
  ])
  expect(answers[0]?.headers['content-length']).toBe('11')
  expect(answers[2]?.headers).toMatchObject({ etag: '"x"', 'content-length': '9' })
})

it('passes on every byte of a response, whatever its length, framing and pieces', async () => {
  const app = await startApp(scope, (req, res) => {
    const [, framing, pieces, length] = (req.url ?? '').split('/')
    const body = bodyOf(Number(length))
    if (framing === 'length') res.setHeader('Content-Length', body.length)
    else res.setHeader('Transfer-Encoding', 'chunked')
    if (pieces === '1') {
      res.end(body)
      return
    }
    res.write(body.subarray(0, 1))
    setImmediate(() => res.end(body.subarray(1)))
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  scope.defer(() => agent.destroy())
  for (const [framing, pieces, length] of BODIES) {
    const outgoing = request({ host: HOST, port, agent, path: `/${framing}/${pieces}/${length}` }).end()
    const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
    const body = Buffer.concat(await incoming.toArray())
    expect([framing, pieces, length, body.equals(bodyOf(length))]).toEqual([framing, pieces, length, true])
    expect(incoming.headers['content-length']).toBe(framing === 'length' ? String(length) : undefined)
  }
})

it('passes on every byte of an upload, whatever its length, framing and pieces', async () => {
  let seen = { length: '' as string | undefined, body: Buffer.alloc(0) }
  const app = await startApp(scope, async (req, res) => {
    seen = { length: req.headers['content-length'], body: Buffer.concat(await req.toArray()) }
    res.end()
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  scope.defer(() => agent.destroy())
  for (const [framing, pieces, length] of BODIES) {
    const headers = framing === 'length' ? { 'Content-Length': length } : { 'Transfer-Encoding': 'chunked' }
    const outgoing = request({ host: HOST, port, agent, method: 'POST', headers })
    const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
    const body = bodyOf(length)
    if (pieces === 1) {
      outgoing.end(body)
    } else {
      outgoing.write(body.subarray(0, 1))
      setImmediate(() => outgoing.end(body.subarray(1)))
    }
    expect(await textOf((await answered)[0])).toBe('')
    expect([framing, pieces, length, seen.body.equals(body)]).toEqual([framing, pieces, length, true])
    expect(seen.length).toBe(framing === 'length' ? String(length) : undefined)
  }
})

it('passes bodies on with any method and either framing', async () => {
  const app = await startApp(scope, async (req, res) => {
    const body = await textOf(req)
    res.end(
      JSON.stringify([
        req.method,
        req.headers['content-length'] ?? null,
        req.headers['transfer-encoding'] ?? null,
        body,
      ]),
    )
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'OPTIONS', 'PROPFIND']) {
    const sized = await ask(port, { method, headers: { 'Content-Length': '4' }, body: 'body' })
    expect(JSON.parse(sized.body)).toEqual([method, '4', null, 'body'])
    const chunked = await ask(port, { method, headers: { 'Transfer-Encoding': 'chunked' }, body: 'body' })
    expect(JSON.parse(chunked.body)).toEqual([method, null, 'chunked', 'body'])
  }
  expect(JSON.parse((await ask(port, { method: 'POST' })).body)).toEqual(['POST', '0', null, ''])
  expect(JSON.parse((await ask(port)).body)).toEqual(['GET', null, null, ''])
})

it('reuses its connections to the app', async () => {
  let connections = 0
  const app = await startApp(scope, (req, res) => void req.resume().on('end', () => res.end('ok')))
  app.server.on('connection', () => (connections += 1))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  // A slow machine may leave a connection unused for so long that the gateway replaces it: 0.1 s before a POST.
  let pauses = 0
  for (let i = 0; i < 20; i += 1) {
    const begin = performance.now()
    expect((await ask(port, i % 2 === 0 ? {} : { method: 'POST', body: 'x' })).status).toBe(200)
    if (performance.now() - begin >= 50) pauses += 1
  }
  expect(connections).toBeLessThanOrEqual(1 + pauses)
})

it('closes a connection that is unused for a while', async () => {
  const closed = Promise.withResolvers<void>()
  const app = await startApp(scope, (_, res) => res.end('ok'))
  app.server.keepAliveTimeout = 0
  app.server.on('connection', (socket) => socket.on('close', () => closed.resolve()))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  expect((await ask(port)).body).toBe('ok')
  await closed.promise
  expect((await ask(port)).body).toBe('ok')
})

it('carries trailers both ways', async () => {
  const app = await startApp(scope, async (req, res) => {
    await textOf(req)
    res.writeHead(200, { Trailer: 'X-Sum' })
    res.write('data')
    res.addTrailers({ 'X-Sum': req.trailers['x-sum'] ?? 'none' })
    res.end()
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const outgoing = request({
    host: HOST,
    port,
    method: 'POST',
    headers: { Trailer: 'X-Sum', TE: 'trailers' },
    agent: false,
  })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  outgoing.write('data')
  outgoing.addTrailers({ 'X-Sum': '42' })
  outgoing.end()
  const [incoming] = await answered
  expect(incoming.headers.trailer).toBe('X-Sum')
  expect(await textOf(incoming)).toBe('data')
  expect(incoming.trailers).toEqual({ 'x-sum': '42' })
})

it('lets the app decide on Expect: 100-continue', async () => {
  const app = await startApp(scope, (req, res) => void textOf(req).then((body) => res.end(body)))
  app.server.on('checkContinue', (req: IncomingMessage, res) => {
    if (req.url === '/no') {
      res.writeHead(413).end()
      return
    }
    res.writeContinue()
    void textOf(req).then((body) => res.end(body))
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })

  const yes = request({
    host: HOST,
    port,
    method: 'POST',
    path: '/',
    headers: { Expect: '100-continue', 'Content-Length': '4', Connection: 'keep-alive' },
    agent: false,
  })
  const answered = once(yes, 'response') as Promise<[IncomingMessage]>
  yes.flushHeaders()
  await once(yes, 'continue')
  yes.end('body')
  const [incoming] = await answered
  expect(await textOf(incoming)).toBe('body')
  expect(incoming.headers.connection).toBe('keep-alive')

  const client = await rawClient(scope, port)
  client.socket.write('POST /no HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n')
  const refused = await client.closed()
  expect(refused).toMatch(/^HTTP\/1\.1 413 /)
  expect(refused).toContain('Connection: close')
})

it('passes early hints on before the response', async () => {
  const app = await startApp(scope, (_, res) => {
    res.writeEarlyHints({ link: '</a.css>; rel=preload; as=style' })
    res.end('page')
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const outgoing = request({ host: HOST, port, agent: false })
  const hinted = once(outgoing, 'information')
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  outgoing.end()
  const [hints] = await hinted
  expect(hints).toMatchObject({ statusCode: 103, headers: { link: '</a.css>; rel=preload; as=style' } })
  expect(await textOf((await answered)[0])).toBe('page')
})

it('answers pipelined requests in their order', async () => {
  const app = await startApp(scope, (req, res) => res.end(`[${req.url}]`))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write(
    'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
  )
  const received = await client.closed()
  expect(received.match(/\[\/\d\]/g)).toEqual(['[/1]', '[/2]', '[/3]'])
})

it('starts a pipelined request only in its turn, and drops it when the client leaves before', async () => {
  const seen: string[] = []
  const arrived = Promise.withResolvers<void>()
  const app = await startApp(scope, (req) => {
    seen.push(req.url ?? '')
    arrived.resolve()
  })
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n')
  await arrived.promise
  client.socket.resetAndDestroy()
  await gateway.route('app', null)
  await gateway.drain(app.upstream, { timeoutMs: 2 ** 30 })
  expect(seen).toEqual(['/1'])
})

it('understands HTTP/1.0, the absolute form and OPTIONS *', async () => {
  const app = await startApp(scope, (req, res) => res.end(`<${req.method} ${req.url} ${req.headers.host}>`))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const old = await rawClient(scope, port)
  old.socket.write('GET /old HTTP/1.0\r\n\r\n')
  expect(await old.closed()).toContain(`<GET /old ${HOST}:${portOf(app.upstream)}>`)
  const absolute = await rawClient(scope, port)
  absolute.socket.write('GET http://b.example/x?y HTTP/1.1\r\nHost: a\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')
  await absolute.until('<GET /x?y b.example>')
  await absolute.until('<OPTIONS * a>')
})
