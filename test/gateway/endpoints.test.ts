import type { RequestListener } from 'node:http'
import { afterEach, expect, it, vi } from 'vitest'
import type { Gateway, RefusedEndpoint, Upstream } from '../../server/src/gateway/client.ts'
import { createBackend } from '../../server/src/gateway/upstream/backend.ts'
import { freePort } from '../harness/ports.ts'
import { ask, createScope, HOST, portOf, startApp, startGateway, startRawApp, upstreamAt } from './harness.ts'

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

it('answers from the other endpoints while one refuses connections, and reports that one once', async () => {
  const alive = await named('alive')
  const dead = { host: HOST, port: await freePort() }
  const upstream = { deploymentId: 'dep_1', endpoints: [dead, alive.upstream.endpoints[0]] } as const
  const { gateway, port } = await startGateway(scope)
  const refused: RefusedEndpoint[] = []
  gateway.onRefused((each) => refused.push(each))
  await gateway.route('app', upstream)
  for (let request = 0; request < 6; request++) expect((await ask(port)).body).toBe('alive')
  await expect.poll(() => refused).toEqual([{ appId: 'app', deploymentId: 'dep_1', endpoint: dead }])

  // Routed anew, it is reported anew.
  await gateway.route('app', null)
  await gateway.route('app', upstream)
  for (let request = 0; request < 2; request++) expect((await ask(port)).body).toBe('alive')
  await expect.poll(() => refused.length).toBe(2)
})

it('sends no request with a body to a second endpoint', async () => {
  const alive = await named('alive')
  const dead = { host: HOST, port: await freePort() }
  const upstream = { deploymentId: 'dep_1', endpoints: [dead, alive.upstream.endpoints[0]] } as const
  const { port } = await startGateway(scope, { upstream })
  expect((await ask(port, { method: 'POST', body: 'x' })).status).toBe(502)
})

it('tries every endpoint of a release for a GET before it answers 502', async () => {
  const well = await startApp(scope, (_, res) => res.end('well'))
  const { port } = await startGateway(scope, {
    upstream: upstreamAt(await freePort(), await freePort(), await freePort(), portOf(well.upstream)),
  })
  for (let i = 0; i < 8; i += 1) expect((await ask(port)).body).toBe('well')
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

it('reports each endpoint when all refuse, answers 502, and reports anew after the upstream is routed anew', async () => {
  const ports = [await freePort(), await freePort()] as const
  const upstream = upstreamAt(...ports)
  const { gateway, port } = await startGateway(scope, { upstream })
  const refusals = collectRefusals(gateway)
  const refusedPorts = () => refusals.map(({ endpoint }) => endpoint.port).sort()
  const each = [...ports].sort()
  expect((await ask(port)).status).toBe(502)
  expect((await ask(port)).status).toBe(502)
  await vi.waitFor(() => expect(refusedPorts()).toEqual(each))
  await gateway.route('app', upstream)
  expect((await ask(port)).status).toBe(502)
  await vi.waitFor(() => expect(refusedPorts()).toEqual([...each, ...each].sort()))
})

it('reports the only endpoint of a release when it refuses, until the listener is ended', async () => {
  const { gateway, port } = await startGateway(scope, { upstream: upstreamAt(await freePort()) })
  const refusals: RefusedEndpoint[] = []
  const end = gateway.onRefused((refused) => refusals.push(refused))
  expect((await ask(port, { method: 'POST', body: 'x' })).status).toBe(502)
  expect((await ask(port)).status).toBe(502)
  // A reply comes after all notifications that were sent before it.
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
  await vi.waitFor(() => expect(finish).toHaveLength(2))
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

it('gives an endpoint that refused a connection requests again after a second, or at once when there is no other', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0)
  scope.defer(() => now.mockRestore())
  const backend = createBackend(upstreamAt(1, 2, 3), () => {})
  const pick = (count: number) => Array.from({ length: count }, () => backend.pick().endpoint.port)
  expect(pick(6)).toEqual([1, 2, 3, 1, 2, 3])
  const [first, second, third] = [backend.pick(), backend.pick(), backend.pick()]
  backend.refused(second)
  expect(pick(4)).toEqual([1, 3, 1, 3])
  backend.refused(first)
  backend.refused(third)
  expect(pick(6).sort()).toEqual([1, 1, 2, 2, 3, 3])
  now.mockReturnValue(1_000)
  expect(pick(6).sort()).toEqual([1, 1, 2, 2, 3, 3])
})
