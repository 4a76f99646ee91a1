import { afterEach, expect, it } from 'vitest'
import {
  ask,
  createScope,
  HOST,
  startApp,
  startGateway,
  startRawApp,
  upstreamAt,
} from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(() => scope.end())

it('answers 503 with a retry hint while no release runs', async () => {
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

it('names the release that answered, whatever the app says', async () => {
  const app = await startApp(scope, (_, res) => res.setHeader('x-fairlead-deployment', 'dep_forged').end('hi'))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const answer = await ask(port)
  expect(answer.headers['x-fairlead-deployment']).toBe(app.upstream.deploymentId)
  expect(answer.body).toBe('hi')
})

it('passes on request headers in case, order and number, without connection headers', async () => {
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

it('passes on response headers in case, order and number, without connection headers', async () => {
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

it('tells the app about the client, and trusts forwarding headers only from a trusted proxy', async () => {
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

it('hides Fairlead’s cookies from the app', async () => {
  const app = await startApp(scope, (req, res) => res.end(req.headers.cookie ?? 'none'))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  expect((await ask(port, { headers: { Cookie: 'a=1; fairlead_session=secret' } })).body).toBe('a=1')
  expect((await ask(port, { headers: { Cookie: '__Host-fairlead_session=secret' } })).body).toBe('none')
})
