import { afterEach, describe, expect, it } from 'vitest'
import { upstreamOf } from '../../../server/src/features/deployments/routes.ts'
import type { AddressEndpoint, Upstream } from '../../../server/src/gateway/protocol/calls.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'
import { ask, createScope, portOf, startApp, startGateway, upstreamAt } from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(() => scope.end())

const cookie = 'fairlead_instance_abc'
const named = (name: string) =>
  startApp(scope, (req, res) => res.setHeader('X-Cookies', req.headers.cookie ?? 'none').end(name))

/** A release with an instance for each name; the instance's key is `key` and its name. */
async function stickyRelease(...names: string[]) {
  const apps = await Promise.all(names.map(named))
  const [first = 0, ...others] = apps.map(({ upstream }) => portOf(upstream))
  const upstream: Upstream = {
    ...upstreamAt(first, ...others),
    sticky: { cookie, keys: names.map((name) => `key${name}`) },
  }
  return { apps, upstream }
}

const askAs = (port: number, value: string, more: { method?: string; headers?: Record<string, string> } = {}) =>
  ask(port, { ...more, headers: { ...more.headers, cookie: value } })

it('keeps a client at its instance by a cookie that the app never sees', async () => {
  const { upstream } = await stickyRelease('a', 'b', 'c')
  const { port } = await startGateway(scope, { upstream })
  const { body, headers } = await ask(port)
  expect(headers['set-cookie']).toEqual([`${cookie}=key${body}; Path=/; HttpOnly; SameSite=Lax`])
  for (const name of ['a', 'b', 'c']) {
    for (let request = 0; request < 5; request += 1) {
      const answer = await askAs(port, `theme=dark; ${cookie}=key${name}; x=1`, {
        method: request % 2 ? 'POST' : 'GET',
      })
      expect(answer.body).toBe(name)
      expect(answer.headers['set-cookie']).toBeUndefined()
      expect(answer.headers['x-cookies']).toBe('theme=dark; x=1')
    }
  }
})

it.each(['keyd', '', 'key', '__proto__', '127.0.0.1:80', 'a'.repeat(4_000)])(
  'ignores the forged cookie %s',
  async (value) => {
    const { upstream } = await stickyRelease('a', 'b')
    const { port } = await startGateway(scope, { upstream })
    const { status, body, headers } = await askAs(port, `${cookie}=${value}`)
    expect(status).toBe(200)
    expect(headers['set-cookie']).toEqual([expect.stringContaining(`${cookie}=key${body};`)])
  },
)

it('moves a client to another instance when its instance refuses connections, and when it is gone', async () => {
  const { apps, upstream } = await stickyRelease('a', 'b')
  const { gateway, port } = await startGateway(scope, { upstream })
  await apps[0]?.stop()
  for (let request = 0; request < 4; request += 1) {
    const { status, body, headers } = await askAs(port, `${cookie}=keya`)
    expect([status, body]).toEqual([200, 'b'])
    expect(headers['set-cookie']).toEqual([expect.stringContaining('=keyb;')])
  }
  const left = {
    ...upstream,
    endpoints: [upstream.endpoints[1] as AddressEndpoint],
    sticky: { cookie, keys: ['keyb'] },
  } as const
  await gateway.route('app', left)
  expect(await askAs(port, `${cookie}=keya`)).toMatchObject({ status: 200, body: 'b' })
  expect((await askAs(port, `${cookie}=keyb`)).headers['set-cookie']).toBeUndefined()
})

it('fails no request of its clients when the releases change', async () => {
  const releases = [await stickyRelease('a', 'b'), await stickyRelease('c', 'd'), await stickyRelease('e', 'f')]
  const { gateway, port } = await startGateway(scope, { upstream: releases[0]?.upstream ?? null })
  let isOver = false
  const statuses = new Set<number>()
  const client = async () => {
    let held = 'x=1'
    while (!isOver) {
      const { status, headers } = await askAs(port, held)
      statuses.add(status)
      held = headers['set-cookie']?.[0]?.split(';')[0] ?? held
    }
  }
  const clients = Array.from({ length: 8 }, client)
  for (let turn = 1; turn < 30; turn += 1) {
    const { upstream } = releases[turn % 3] ?? { upstream: null }
    const before = await gateway.route('app', upstream)
    if (before !== null) await gateway.drain(before, { timeoutMs: 2 ** 30 })
  }
  isOver = true
  await Promise.all(clients)
  expect([...statuses]).toEqual([200])
})

it('marks the cookie as secure where the public address uses https', async () => {
  const { upstream } = await stickyRelease('a', 'b')
  const { port } = await startGateway(scope, { upstream, isTrustedProxy: () => true })
  const { headers } = await ask(port, { headers: { 'x-forwarded-proto': 'https' } })
  expect(headers['set-cookie']).toEqual([expect.stringMatching(/; HttpOnly; SameSite=Lax; Secure$/)])
})

describe('the upstream of a release', () => {
  const plan = { kind: 'node', build: [], start: { argv: ['node'] } } as const
  const at = (port: number) => ({ host: '10.1.2.3', port })
  const rowWith = (sticky: boolean, variables = 'random bytes') =>
    deploymentRow({
      variables: Buffer.from(variables),
      build_plan: sticky ? { ...plan, processes: { web: { sticky: true } } } : plan,
    })

  it('has keys that reveal nothing about its instances, and are the same for every server', () => {
    const { sticky } = upstreamOf(rowWith(true), [at(8_000), at(8_001)])
    expect(sticky?.cookie).toMatch(/^fairlead_instance_[\da-f]{12}$/)
    expect(new Set(sticky?.keys).size).toBe(2)
    for (const key of sticky?.keys ?? []) expect(key).toMatch(/^[\da-f]{32}$/)
    expect(upstreamOf(rowWith(true), [at(8_001)]).sticky?.keys).toEqual([sticky?.keys[1]])
    expect(upstreamOf(rowWith(true, 'others'), [at(8_000)]).sticky?.keys).not.toEqual([sticky?.keys[0]])
  })

  it('has no keys where its plan does not ask for them', () => {
    expect(upstreamOf(rowWith(false), [at(8_000)])).toEqual({ deploymentId: 'dep_1', endpoints: [at(8_000)] })
  })
})
