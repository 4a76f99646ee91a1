import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { createGateway } from '../../harness/gateway/channel.ts'
import { ask, createScope, HOST, rawClient, silent, startApp, startGateway } from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'

const scope = createScope()
afterEach(() => scope.end())

async function startHostnames(scheme: 'http' | 'https' = 'http') {
  const port = await freePort()
  const gateway = createGateway({
    log: silent,
    host: HOST,
    apps: { mode: 'hostnames', port, scheme },
    isTrustedProxy: () => false,
  })
  await gateway.listen()
  scope.defer(() => gateway.stop({ timeoutMs: 0 }))
  return { gateway, port }
}

it('tells apps apart by host name, whatever its case, port and final dot', async () => {
  const { gateway, port } = await startHostnames('https')
  for (const name of ['one', 'two']) {
    const app = await startApp(scope, (req, res) =>
      res.end(`${name} ${req.headers.host} ${req.headers['x-forwarded-proto']}`),
    )
    await gateway.open(name, { hostname: `${name}.apps.example` })
    await gateway.route(name, app.upstream)
  }
  expect((await ask(port, { headers: { Host: 'one.apps.example' } })).body).toBe('one one.apps.example https')
  expect((await ask(port, { headers: { Host: 'TWO.Apps.Example.:8443' } })).body).toBe(
    'two TWO.Apps.Example.:8443 https',
  )
  const unknown = await ask(port, { headers: { Host: 'three.apps.example' } })
  expect([unknown.status, unknown.body]).toEqual([404, 'There is no app at this address.\n'])
  expect(unknown.headers['x-fairlead-deployment']).toBeUndefined()
})

it('routes by the host of the request line where it names one', async () => {
  const { gateway, port } = await startHostnames()
  const app = await startApp(scope, (req, res) => res.end(`<${req.headers.host}>`))
  await gateway.open('one', { hostname: 'one.example' })
  await gateway.route('one', app.upstream)
  const client = await rawClient(scope, port)
  client.socket.write('GET http://one.example/ HTTP/1.1\r\nHost: two.example\r\n\r\n')
  await client.until('<one.example>')
})

it('gives a host name to one app only, and frees it when the app closes', async () => {
  const { gateway, port } = await startHostnames()
  await gateway.open('one', { hostname: 'a.example' })
  await expect(gateway.open('two', { hostname: 'A.example.' })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await gateway.close('one')
  expect((await ask(port, { headers: { Host: 'a.example' } })).status).toBe(404)
  await gateway.open('two', { hostname: 'a.example' })
  expect((await ask(port, { headers: { Host: 'a.example' } })).status).toBe(503)
})

it('reports a taken port, and can then open the app elsewhere', async () => {
  const { gateway } = await startGateway(scope)
  const squatter = createServer().listen(0, HOST)
  await once(squatter, 'listening')
  scope.defer(() => squatter.close())
  const { port } = squatter.address() as { port: number }
  await expect(gateway.open('other', { port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await gateway.open('other', { port: await freePort() })
})

it('refuses addresses of another kind and routes of unknown apps, and leaves an open app unchanged', async () => {
  const { gateway, port } = await startGateway(scope)
  await expect(gateway.open('x', { hostname: 'a' })).rejects.toThrow('ports')
  await gateway.open('app', { port })
  await expect(gateway.route('unknown', null)).rejects.toThrow('not open')
  expect(gateway.current('unknown')).toBeNull()
  await gateway.close('unknown')
})

it('moves an app that is opened at another address, with its route', async () => {
  const app = await startApp(scope, (_, res) => res.end('hi'))
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const other = await freePort()
  await gateway.open('app', { port: other })
  expect((await ask(other)).body).toBe('hi')
  expect(gateway.current('app')).toEqual(app.upstream)
  await expect(ask(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

it('closes an app: no new connections, running requests get their time, kept connections end at once', async () => {
  const arrived = Promise.withResolvers<() => void>()
  const app = await startApp(scope, (req, res) => {
    if (req.url === '/slow') arrived.resolve(() => res.end('slow'))
    else res.end('fast')
  })
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const idle = await rawClient(scope, port)
  idle.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await idle.until('fast')
  const slow = ask(port, { path: '/slow' })
  const finish = await arrived.promise

  const closed = gateway.close('app', { timeoutMs: 2 ** 30 })
  await idle.closed()
  await expect(ask(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  expect(gateway.current('app')).toBeNull()
  finish()
  const answer = await slow
  expect([answer.body, answer.headers.connection]).toEqual(['slow', 'close'])
  await closed
  await gateway.open('app', { port })
})

it('stops: unused connections are closed at once, hanging requests after the deadline', async () => {
  const arrived = Promise.withResolvers<void>()
  const app = await startApp(scope, () => arrived.resolve())
  const { gateway, port } = await startGateway(scope, { upstream: app.upstream })
  const unused = await rawClient(scope, port)
  const hanging = ask(port)
  const cut = expect(hanging).rejects.toThrow()
  await arrived.promise
  await gateway.stop({ timeoutMs: 50 })
  await cut
  await unused.closed()
})

it('stops at once without running requests, even with connections that never sent a request', async () => {
  const { gateway, port } = await startHostnames()
  const unused = await rawClient(scope, port)
  await gateway.stop({ timeoutMs: 2 ** 30 })
  await unused.closed()
  await expect(ask(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

it('survives clients that vanish in every state', async () => {
  const app = await startApp(
    scope,
    (req, res) =>
      void req
        .resume()
        .on('end', () => res.end('x'.repeat(100_000)))
        .on('error', () => {}),
  )
  const { port } = await startGateway(scope, { upstream: app.upstream })
  for (const bytes of [
    '',
    'GE',
    'GET / HTTP/1.1\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx',
    'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
  ]) {
    const client = await rawClient(scope, port)
    await new Promise<void>((resolve) => (bytes === '' ? resolve() : client.socket.write(bytes, () => resolve())))
    client.socket.resetAndDestroy()
    const again = await rawClient(scope, port)
    again.socket.end(bytes)
    await again.closed()
  }
  expect((await ask(port)).status).toBe(200)
})
