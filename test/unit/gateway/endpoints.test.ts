import { Agent, type RequestListener } from 'node:http'
import { createServer } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import type { Gateway, RefusedEndpoint, Upstream } from '../../../server/src/gateway/client.ts'
import { createBackend, createRetiredBackends } from '../../../server/src/gateway/proxy/backend.ts'
import { addressOf } from '../../harness/addresses.ts'
import {
  ask,
  createScope,
  HOST,
  portOf,
  startApp,
  startGateway,
  startRawApp,
  upstreamAt,
} from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'

const scope = createScope()
afterEach(() => scope.end())

/** One release with an instance for each handler. */
async function startInstances(...handlers: [RequestListener, ...RequestListener[]]): Promise<Upstream> {
  const [first = 0, ...others] = await Promise.all(
    handlers.map(async (handler) => portOf((await startApp(scope, handler)).upstream)),
  )
  return upstreamAt(first, ...others)
}

function collectRefusals(gateway: Gateway): RefusedEndpoint[] {
  const refusals: RefusedEndpoint[] = []
  scope.defer(gateway.onRefused((refused) => refusals.push(refused)))
  return refusals
}

const named = (name: string) => startApp(scope, (_, res) => res.end(name))

it('shares the requests among the endpoints of an upstream', async () => {
  const apps = [await named('a'), await named('b'), await named('c')]
  const [first, ...rest] = apps.map(({ upstream }) => upstream.endpoints[0])
  if (first === undefined) throw new Error('no endpoint')
  const { port } = await startGateway(scope, { upstream: { deploymentId: 'dep_1', endpoints: [first, ...rest] } })
  const bodies: string[] = []
  for (let request = 0; request < 9; request++) {
    const { body, headers } = await ask(port)
    bodies.push(body)
    expect(headers['x-fairlead-deployment']).toBe('dep_1')
  }
  for (const name of ['a', 'b', 'c']) expect(bodies.filter((body) => body === name)).toHaveLength(3)
})

it('answers from the other endpoints while one refuses connections, and reports it once', async () => {
  const alive = await named('alive')
  const dead = { host: HOST, port: await freePort() }
  const upstream = { deploymentId: 'dep_1', endpoints: [dead, alive.upstream.endpoints[0]] } as const
  const { gateway, port } = await startGateway(scope)
  const refused: RefusedEndpoint[] = []
  gateway.onRefused((each) => refused.push(each))
  await gateway.route('app', upstream)
  for (let request = 0; request < 6; request++) expect((await ask(port)).body).toBe('alive')
  await expect.poll(() => refused).toEqual([{ appId: 'app', deploymentId: 'dep_1', endpoint: dead }])

  // A new route causes a new report.
  await gateway.route('app', null)
  await gateway.route('app', upstream)
  for (let request = 0; request < 2; request++) expect((await ask(port)).body).toBe('alive')
  await expect.poll(() => refused.length).toBe(2)
})

it.each([
  ['GET', ''],
  ['OPTIONS', ''],
  ['DELETE', 'x'],
  ['PUT', 'x'.repeat(1_000_000)],
  ['PATCH', 'x'],
  ['POST', ''],
  ['POST', 'x'.repeat(1_000_000)],
])('sends %s with its body to another endpoint when one refuses the connection', async (method, body) => {
  const echo = await startApp(scope, (req, res) => {
    res.write(`${req.method} `)
    req.pipe(res)
  })
  const upstream = upstreamAt(await freePort(), await freePort(), portOf(echo.upstream))
  const { port } = await startGateway(scope, { upstream })
  for (let request = 0; request < 3; request += 1) {
    const answer = await ask(port, { method, body, headers: { 'Content-Length': String(body.length) } })
    expect([answer.status, answer.body]).toEqual([200, `${method} ${body}`])
  }
})

it('answers an upload with 502 when all endpoints refuse the connection, and reads the rest of the upload', async () => {
  const { port } = await startGateway(scope, { upstream: upstreamAt(await freePort(), await freePort()) })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  scope.defer(() => agent.destroy())
  for (let request = 0; request < 3; request += 1) {
    expect((await ask(port, { method: 'POST', body: 'x'.repeat(1_000_000), agent })).status).toBe(502)
  }
})

it('tries every endpoint of a release for a GET before it answers 502', async () => {
  const well = await startApp(scope, (_, res) => res.end('well'))
  const { port } = await startGateway(scope, {
    upstream: upstreamAt(await freePort(), await freePort(), await freePort(), portOf(well.upstream)),
  })
  for (let i = 0; i < 8; i += 1) expect((await ask(port)).body).toBe('well')
})

it('sends a request once to another instance when an instance accepts a connection and ends without a byte, if that is safe', async () => {
  let ended = 0
  const ending = await startRawApp(scope, (socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      ended += 1
      socket.resetAndDestroy()
    })
  })
  const alive = await named('alive')
  const { gateway, port } = await startGateway(scope, {
    upstream: { deploymentId: 'dep_1', endpoints: [...ending.endpoints, ...alive.upstream.endpoints] },
  })
  for (const method of ['GET', 'OPTIONS', 'DELETE', 'GET', 'OPTIONS', 'DELETE']) {
    expect([method, (await ask(port, { method })).body]).toEqual([method, 'alive'])
  }
  const statuses = [await ask(port, { method: 'POST' }), await ask(port, { method: 'POST' })].map(
    ({ status }) => status,
  )
  expect(statuses.sort()).toEqual([200, 502])

  const [first, ...rest] = [...ending.endpoints, ...ending.endpoints, ...ending.endpoints]
  if (first === undefined) throw new Error('no endpoint')
  await gateway.route('app', { deploymentId: 'dep_2', endpoints: [first, ...rest] })
  ended = 0
  expect((await ask(port)).status).toBe(502)
  expect(ended).toBe(2)
})

it('reports no refusal of a release that is no longer routed', async () => {
  const next = await startApp(scope, (_, res) => res.end('next'))
  const dead = upstreamAt(await freePort())
  let onRequest = () => {}
  const { gateway, port } = await startGateway(scope, {
    upstream: dead,
    isTrustedProxy: () => {
      // Runs between the choice of the release and the failure of the connection.
      queueMicrotask(onRequest)
      return false
    },
  })
  const refusals = collectRefusals(gateway)
  onRequest = () => void gateway.route('app', next.upstream)
  expect((await ask(port)).body).toBe('next')
  await gateway.takeTraffic()
  expect(refusals).toEqual([])
})

it('reports each endpoint when all refuse, answers 502, and reports again after a new route', async () => {
  const ports = [await freePort(), await freePort()] as const
  const upstream = upstreamAt(...ports)
  const { gateway, port } = await startGateway(scope, { upstream })
  const refusals = collectRefusals(gateway)
  const refusedPorts = () => refusals.map(({ endpoint }) => addressOf({ endpoints: [endpoint] }).port).sort()
  const each = [...ports].sort()
  expect((await ask(port)).status).toBe(502)
  expect((await ask(port)).status).toBe(502)
  await expect.poll(() => refusedPorts()).toEqual(each)
  await gateway.route('app', upstream)
  expect((await ask(port)).status).toBe(502)
  await expect.poll(() => refusedPorts()).toEqual([...each, ...each].sort())
})

it('reports the only endpoint of a release when it refuses, until the listener is removed', async () => {
  const { gateway, port } = await startGateway(scope, { upstream: upstreamAt(await freePort()) })
  const refusals: RefusedEndpoint[] = []
  const end = gateway.onRefused((refused) => refusals.push(refused))
  expect((await ask(port, { method: 'POST', body: 'x' })).status).toBe(502)
  expect((await ask(port)).status).toBe(502)
  // A reply follows all earlier notifications.
  await gateway.takeTraffic()
  expect(refusals).toHaveLength(1)
  end()
  await gateway.route('app', upstreamAt(await freePort()))
  expect((await ask(port)).status).toBe(502)
  await gateway.takeTraffic()
  expect(refusals).toHaveLength(1)
})

it('does not report an app that accepts a connection and closes it', async () => {
  const upstream = await startRawApp(scope, (socket) => socket.destroy())
  const { gateway, port } = await startGateway(scope, { upstream })
  const refusals = collectRefusals(gateway)
  expect((await ask(port)).status).toBe(502)
  await gateway.takeTraffic()
  expect(refusals).toEqual([])
})

it('drains all endpoints of a release', async () => {
  const finish: (() => void)[] = []
  const hold: RequestListener = (_, res) => finish.push(() => res.end('held'))
  const upstream = await startInstances(hold, hold)
  const { gateway, port } = await startGateway(scope, { upstream })
  const answers = [ask(port), ask(port)]
  await expect.poll(() => finish).toHaveLength(2)
  await gateway.route('app', null)
  let drained = false
  const drain = gateway.drain(upstream, { timeoutMs: 2 ** 30 }).then(() => (drained = true))
  finish[0]?.()
  await Promise.race(answers)
  await gateway.takeTraffic()
  expect(drained).toBe(false)
  finish[1]?.()
  expect((await Promise.all(answers)).map(({ body }) => body)).toEqual(['held', 'held'])
  await drain
})

it('sends requests to an endpoint that refused a connection again as soon as it accepts one', async () => {
  const [first, second] = [await named('a'), await named('b')]
  const late = await freePort()
  const upstream = upstreamAt(portOf(first.upstream), portOf(second.upstream), late)
  const backend = createBackend(upstream, () => {})
  scope.defer(() => createRetiredBackends().retire(backend, null))
  const pick = (count: number) => Array.from({ length: count }, () => backend.pick().endpoint.port)
  const [a, b] = [portOf(first.upstream), portOf(second.upstream)]
  expect(pick(6)).toEqual([a, b, late, a, b, late])
  const [, , third] = [backend.pick(), backend.pick(), backend.pick()]
  backend.refused(third)
  expect(pick(4)).toEqual([a, b, a, b])
  const server = createServer().listen(late, HOST)
  scope.defer(() => server.close())
  await expect.poll(() => pick(3)).toContain(late)
})

it('tries a refusing endpoint when there is no other', async () => {
  const backend = createBackend(upstreamAt(await freePort(), await freePort()), () => {})
  scope.defer(() => createRetiredBackends().retire(backend, null))
  const [first, second] = [backend.pick(), backend.pick()]
  backend.refused(first)
  backend.refused(second)
  expect([first, second]).toContain(backend.pick())
})

it('sends a request to the endpoint that has the fewest', async () => {
  const finish: (() => void)[] = []
  const slow = await startApp(scope, (_, res) => finish.push(() => res.end('slow')))
  const quick = await named('quick')
  const { port } = await startGateway(scope, { upstream: upstreamAt(portOf(slow.upstream), portOf(quick.upstream)) })
  const held = ask(port)
  await expect.poll(() => finish).toHaveLength(1)
  for (let request = 0; request < 5; request += 1) expect((await ask(port)).body).toBe('quick')
  finish[0]?.()
  expect((await held).body).toBe('slow')
})

it('keeps the requests and connections of the remaining endpoints when a release gets more or fewer', async () => {
  const finish: (() => void)[] = []
  const stays = await startApp(scope, (_, res) => finish.push(() => res.end('stays')))
  const leaves = await named('leaves')
  const both = upstreamAt(portOf(stays.upstream), portOf(leaves.upstream))
  const { gateway, port } = await startGateway(scope, { upstream: both })
  const held = ask(port)
  await expect.poll(() => finish).toHaveLength(1)
  const [one, other] = both.endpoints
  await gateway.route('app', { ...both, endpoints: [one] })
  // The removed endpoint has no request, and the remaining endpoint is not drained.
  await gateway.drain({ ...both, endpoints: [other ?? one] }, { timeoutMs: 0 })
  await expect(gateway.drain(both, { timeoutMs: 0 })).rejects.toThrow('still gets requests')
  await gateway.route('app', both)
  // Its request still counts: the other endpoint is less busy.
  for (let request = 0; request < 3; request += 1) expect((await ask(port)).body).toBe('leaves')
  finish[0]?.()
  expect((await held).body).toBe('stays')
})
