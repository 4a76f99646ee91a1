import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
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
  upstreamAt,
} from './harness.ts'

const scope = createScope()
afterEach(() => scope.end())

it('answers 503 that asks to come back while no release runs', async () => {
  const { port } = await startGateway(scope)
  const answer = await ask(port)
  expect(answer.status).toBe(503)
  expect(answer.headers).toMatchObject({ 'retry-after': '1', 'cache-control': 'no-store' })
  expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8')
  expect(answer.headers['x-fairlead-deployment']).toBeUndefined()
  expect(answer.body).toContain('No release of this app is running')
})

it('answers 502 without internals when the app refuses the connection', async () => {
  const { port } = await startGateway(scope, { upstream: upstreamAt(1) })
  const answer = await ask(port, { method: 'POST', body: 'x' })
  expect(answer.status).toBe(502)
  expect(answer.headers['x-fairlead-deployment']).toBeUndefined()
  expect(answer.body).not.toMatch(/127\.0\.0\.1|ECONN|dep_/)
})

it('answers 502 when the app dies before it answers', async () => {
  const upstream = await startRawApp(scope, (socket) => socket.once('data', () => socket.destroy()))
  const { port } = await startGateway(scope, { upstream })
  expect((await ask(port)).status).toBe(502)
  expect((await ask(port, { method: 'POST', body: 'x' })).status).toBe(502)
})

it('names the release that answered, whatever the app says itself', async () => {
  const app = await startApp(scope, (_, res) => res.setHeader('x-fairlead-deployment', 'dep_forged').end('hi'))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const answer = await ask(port)
  expect(answer.headers['x-fairlead-deployment']).toBe(app.upstream.deploymentId)
  expect(answer.body).toBe('hi')
})

it('passes request headers on in case, order and number, without those of the connection', async () => {
  const app = await startApp(scope, (req, res) => res.end(JSON.stringify(req.rawHeaders)))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const own = ['HOST', 'shop.example', 'x-B', '1', 'X-a', '2', 'x-b', '3', 'Accept', '*/*']
  const hop = ['Connection', 'close, X-Mine', 'X-Mine', 'm', 'Keep-Alive', 'timeout=9', 'Proxy-Connection', 'x']
  const { body } = await ask(port, { headers: [...own, ...hop] })
  const seen = JSON.parse(body) as string[]
  expect(seen.slice(0, own.length)).toEqual(own)
  expect(seen.slice(own.length)).toEqual([
    ...['X-Forwarded-For', HOST, 'X-Forwarded-Proto', 'http', 'X-Forwarded-Host', 'shop.example'],
    ...['Connection', 'keep-alive'],
  ])
})

it('passes answer headers on in case, order and number, without those of the connection', async () => {
  const app = await startApp(scope, (_, res) => {
    const own = ['x-B', '1', 'Set-Cookie', 'a=1', 'X-a', '2', 'set-cookie', 'b=2', 'Set-Cookie', 'fairlead_session=x']
    res.writeHead(201, 'Made', [...own, 'Connection', 'X-Mine', 'X-Mine', 'm', 'Proxy-Connection', 'x', 'Date', 'now'])
    res.end()
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const answer = await ask(port)
  expect([answer.status, answer.reason]).toEqual([201, 'Made'])
  expect(answer.rawHeaders.slice(0, 10)).toEqual([
    'x-B',
    '1',
    'Set-Cookie',
    'a=1',
    'X-a',
    '2',
    'set-cookie',
    'b=2',
    'Date',
    'now',
  ])
  const names = answer.rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase())
  expect(names).not.toContain('x-mine')
  expect(names).not.toContain('proxy-connection')
})

it('tells the app about the client, and believes others only from a trusted proxy', async () => {
  const app = await startApp(scope, (req, res) => res.end(JSON.stringify(req.headers)))
  const claims = {
    'X-Forwarded-For': '6.6.6.6',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Host': 'evil',
    Forwarded: 'for=6.6.6.6',
  }
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const unbelieved = JSON.parse((await ask(port, { headers: { ...claims, Host: 'a.example' } })).body)
  expect(unbelieved).toMatchObject({
    'x-forwarded-for': HOST,
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'a.example',
  })
  expect(unbelieved.forwarded).toBeUndefined()

  const trusting = await startGateway(scope, { upstream: app.upstream, isTrustedProxy: () => true })
  const believed = JSON.parse((await ask(trusting.port, { headers: claims })).body)
  expect(believed).toMatchObject({
    'x-forwarded-for': `6.6.6.6, ${HOST}`,
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'evil',
  })
})

it('keeps the cookies of Fairlead from the app', async () => {
  const app = await startApp(scope, (req, res) => res.end(req.headers.cookie ?? 'none'))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  expect((await ask(port, { headers: { Cookie: 'a=1; fairlead_session=secret' } })).body).toBe('a=1')
  expect((await ask(port, { headers: { Cookie: '__Host-fairlead_session=secret' } })).body).toBe('none')
})

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

it('uses its connections to the app again', async () => {
  let connections = 0
  const app = await startApp(scope, (req, res) => void req.resume().on('end', () => res.end('ok')))
  app.server.on('connection', () => (connections += 1))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  for (let i = 0; i < 20; i += 1) {
    expect((await ask(port, i % 2 === 0 ? {} : { method: 'POST', body: 'x' })).status).toBe(200)
  }
  expect(connections).toBe(1)
})

it('gives a connection back that is not used for a while', async () => {
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
    headers: { Expect: '100-continue', 'Content-Length': '4' },
    agent: false,
  })
  const answered = once(yes, 'response') as Promise<[IncomingMessage]>
  yes.flushHeaders()
  await once(yes, 'continue')
  yes.end('body')
  expect(await textOf((await answered)[0])).toBe('body')

  const client = await rawClient(scope, port)
  client.socket.write('POST /no HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n')
  const refused = await client.closed()
  expect(refused).toMatch(/^HTTP\/1\.1 413 /)
  expect(refused).toContain('Connection: close')
})

it('passes early hints on before the answer', async () => {
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

it('understands HTTP/1.0, the absolute form and OPTIONS *', async () => {
  const app = await startApp(scope, (req, res) => res.end(`<${req.method} ${req.url} ${req.headers.host}>`))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const old = await rawClient(scope, port)
  old.socket.write('GET /old HTTP/1.0\r\n\r\n')
  expect(await old.closed()).toContain(`<GET /old ${HOST}:${app.upstream.port}>`)
  const absolute = await rawClient(scope, port)
  absolute.socket.write('GET http://b.example/x?y HTTP/1.1\r\nHost: a\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')
  await absolute.until('<GET /x?y b.example>')
  await absolute.until('<OPTIONS * a>')
})
