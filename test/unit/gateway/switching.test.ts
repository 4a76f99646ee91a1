import { Agent } from 'node:http'
import { afterEach, expect, it, vi } from 'vitest'
import { ask, createScope, startApp, startGateway, startRawApp, upstreamAt } from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'

const scope = createScope()
afterEach(async () => {
  vi.restoreAllMocks()
  await scope.end()
})

it('loses no request over twenty switches under load, and keeps the connections of its clients', async () => {
  const startRelease = () =>
    startApp(scope, (req, res) => {
      const chunks: Buffer[] = []
      req.on('data', (chunk) => chunks.push(chunk))
      req.on('end', () => setImmediate(() => res.end(`${req.method} ${Buffer.concat(chunks)}`)))
    })
  let release = await startRelease()
  const { gateway, port } = await startGateway(scope, { upstream: release.upstream })
  const failures: unknown[] = []
  const answeredBy = new Map<string, () => void>()
  let answers = 0
  let stopped = false

  async function client(agent: Agent, method: 'GET' | 'POST'): Promise<void> {
    while (!stopped) {
      const answer = await ask(port, { agent, method, ...(method === 'POST' && { body: 'payload' }) })
      const expected = method === 'POST' ? 'POST payload' : 'GET '
      if (answer.status !== 200 || answer.body !== expected) failures.push([answer.status, answer.body])
      answers += 1
      answeredBy.get(String(answer.headers['x-fairlead-deployment']))?.()
    }
  }

  const agents = Array.from({ length: 8 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  let connections = 0
  for (const agent of agents) {
    agent.on('free', (socket) => {
      if (!socket.counted) connections += 1
      socket.counted = true
    })
    scope.defer(() => agent.destroy())
  }
  const clients = agents.map((agent, i) =>
    client(agent, i % 2 === 0 ? 'GET' : 'POST').catch((error) => failures.push(error)),
  )

  for (let i = 0; i < 20; i += 1) {
    const old = release
    release = await startRelease()
    const seen = new Promise<void>((resolve) => answeredBy.set(release.upstream.deploymentId, resolve))
    expect(await gateway.route('app', release.upstream)).toEqual(old.upstream)
    expect(gateway.current('app')).toEqual(release.upstream)
    await gateway.drain(old.upstream, { timeoutMs: 2 ** 30 })
    await old.stop()
    await seen
  }
  stopped = true
  await Promise.all(clients)
  expect(failures).toEqual([])
  expect(answers).toBeGreaterThan(20)
  expect(connections).toBe(agents.length)
})

it('lets a running request finish on the old release, and cuts it when the drain times out', async () => {
  const finish: (() => void)[] = []
  const arrivals: (() => void)[] = []
  const old = await startApp(scope, (_, res) => {
    finish.push(() => res.end('old'))
    arrivals.shift()?.()
  })
  const next = await startApp(scope, (_, res) => res.end('new'))
  const { gateway, port } = await startGateway(scope, { upstream: old.upstream })
  const arrived = [1, 2].map(() => new Promise<void>((resolve) => arrivals.push(resolve)))
  const patient = ask(port)
  await arrived[0]
  const doomed = ask(port, { method: 'POST', body: 'x' })
  const cut = expect(doomed).rejects.toThrow()
  await arrived[1]

  await gateway.route('app', next.upstream)
  expect((await ask(port)).body).toBe('new')
  let drained = false
  // The drain times out only after the patient client has its response.
  const timeless = new AbortController()
  const draining = gateway.drain(old.upstream, { timeoutMs: 2 ** 30, signal: timeless.signal })
  const drain = draining.then(() => (drained = true))
  finish[0]?.()
  expect((await patient).body).toBe('old')
  expect(drained).toBe(false)
  timeless.abort()
  await drain
  await gateway.drain(old.upstream, { timeoutMs: 500 })
  await cut
  expect((await ask(port)).body).toBe('new')
})

it('refuses to drain the current release', async () => {
  const app = await startApp(scope, (_, res) => res.end())
  const { gateway } = await startGateway(scope, { upstream: app.upstream })
  await expect(gateway.drain(app.upstream, { timeoutMs: 0 })).rejects.toThrow('route the app elsewhere first')
  await gateway.drain(upstreamAt(1), { timeoutMs: 0 })
})

it('closes its connections to a drained release', async () => {
  const closed = Promise.withResolvers<void>()
  const app = await startApp(scope, (_, res) => res.end())
  app.server.keepAliveTimeout = 0
  app.server.on('connection', (socket) => socket.on('close', () => closed.resolve()))
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  await ask(port)
  await gateway.route('app', null)
  await gateway.drain(app.upstream, { timeoutMs: 0 })
  await closed.promise
})

it('can go back to a release that is still draining', async () => {
  const finish: (() => void)[] = []
  const arrived = Promise.withResolvers<void>()
  const app = await startApp(scope, (req, res) => {
    if (req.url !== '/slow') res.end('fast')
    else finish.push(() => res.end('slow'))
    if (req.url === '/slow') arrived.resolve()
  })
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const slow = ask(port, { path: '/slow' })
  await arrived.promise
  await gateway.route('app', null)
  expect((await ask(port)).status).toBe(503)
  const goingBack = new AbortController()
  const drain = gateway.drain(app.upstream, { timeoutMs: 2 ** 30, signal: goingBack.signal })
  goingBack.abort()
  await drain
  await gateway.route('app', app.upstream)
  expect((await ask(port)).body).toBe('fast')
  finish[0]?.()
  expect((await slow).body).toBe('slow')
})

it('retries a request on the current release when the old release disappeared before the request reached it', async () => {
  const next = await startApp(scope, (req, res) => req.pipe(res))
  const dead = upstreamAt(await freePort())
  let onRequest = () => {}
  const { gateway, port } = await startGateway(scope, {
    isTrustedProxy: () => {
      // Right after the gateway has read the route, and before the connection can have failed.
      queueMicrotask(onRequest)
      return false
    },
  })
  onRequest = () => gateway.route('app', next.upstream)
  for (const method of ['GET', 'HEAD', 'POST']) {
    await gateway.route('app', dead)
    expect((await ask(port, { method })).status).toBe(200)
  }
  await gateway.route('app', dead)
  expect((await ask(port, { method: 'POST', body: 'an upload' })).body).toBe('an upload')
  onRequest = () => gateway.route('app', null)
  await gateway.route('app', dead)
  expect((await ask(port)).status).toBe(503)
})

it('retries a request that met a closing connection of the app, if that is safe', async () => {
  // All connections have just been used.
  const now = performance.now()
  vi.spyOn(performance, 'now').mockImplementation(() => now)
  // Every connection serves one request, and ends at the next request without a byte.
  let attempts = 0
  const upstream = await startRawApp(scope, (socket) => {
    let served = 0
    socket.on('data', () => {
      attempts += 1
      served += 1
      if (served === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      else socket.destroy()
    })
  })
  const { port } = await startGateway(scope, { upstream })
  expect((await ask(port)).status).toBe(200)
  for (const method of ['GET', 'OPTIONS', 'DELETE']) {
    attempts = 0
    expect([method, (await ask(port, { method })).body]).toEqual([method, 'ok'])
    expect(attempts).toBe(2)
  }
  attempts = 0
  expect((await ask(port, { method: 'POST' })).status).toBe(502)
  expect(attempts).toBe(1)
  expect((await ask(port)).status).toBe(200)
  expect((await ask(port, { method: 'PUT', body: 'x' })).status).toBe(502)
})
