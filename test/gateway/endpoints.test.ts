import { afterEach, expect, it } from 'vitest'
import type { RefusedEndpoint } from '../../server/src/gateway/client.ts'
import { freePort } from '../harness/ports.ts'
import { ask, createScope, HOST, startApp, startGateway } from './harness.ts'

const scope = createScope()
afterEach(() => scope.end())

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
