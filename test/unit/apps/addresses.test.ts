import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { slugOf } from '../../../server/src/contract/fields.ts'
import { candidates, hostnameOf, publicUrl } from '../../../server/src/features/apps/addresses.ts'
import type { AppsConfig } from '../../../server/src/platform/config.ts'

const ports: AppsConfig = { mode: 'ports', publicHost: 'localhost', ports: { from: 20_000, to: 20_004 } }
const hostnames = {
  mode: 'hostnames',
  domain: 'apps.example.com',
  scheme: 'https',
  publicPort: 443,
  gatewayPort: 8080,
} as const satisfies AppsConfig

describe('the slug of a name', () => {
  it.each([
    ['My Shop', 'my-shop'],
    ['  Café – Zürich!  ', 'cafe-zurich'],
    ['a__b--c', 'a-b-c'],
    [`${'a'.repeat(39)} b`, 'a'.repeat(39)],
    ['日本', 'app'],
    ['', 'app'],
  ])('of %j is %j', (name, slug) => {
    expect(slugOf(name)).toBe(slug)
  })

  it('is a label of a host name for every name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 120 }), (name) => {
        expect(slugOf(name)).toMatch(/^(?=.{1,40}$)[a-z0-9]+(-[a-z0-9]+)*$/)
      }),
    )
  })
})

describe('the host name of an app', () => {
  const named = { name: 'Web', projectId: 'proj_0123456789abcdef', domain: 'apps.example.com' }

  it('ends its label with the end of the project id', () => {
    expect(hostnameOf({ ...named, attempt: 1 })).toBe('web-89abcdef.apps.example.com')
  })

  it('has a number when another app of the project has the same slug', () => {
    expect(hostnameOf({ ...named, attempt: 2 })).toBe('web-2-89abcdef.apps.example.com')
  })
})

describe('the public address', () => {
  it.each([
    ['localhost', 'http://localhost:20000'],
    ['::1', 'http://[::1]:20000'],
  ])('of an app on a port of %s is %s', (publicHost, url) => {
    expect(publicUrl({ port: 20_000 }, { ...ports, publicHost })).toBe(url)
  })

  it.each([
    ['https', 443, 'https://web.example.com'],
    ['http', 80, 'http://web.example.com'],
    ['https', 8443, 'https://web.example.com:8443'],
    ['http', 443, 'http://web.example.com:443'],
  ] as const)('of a host name over %s on port %i is %s', (scheme, publicPort, url) => {
    expect(publicUrl({ hostname: 'web.example.com' }, { ...hostnames, scheme, publicPort })).toBe(url)
  })
})

describe('the addresses that a new app may get', () => {
  it('are all ports of the range, each once', () => {
    const found = [...candidates(ports, 'proj_1', 'web')].map((address) => 'port' in address && address.port)
    expect(found.sort()).toEqual([20_000, 20_001, 20_002, 20_003, 20_004])
  })

  it('are host names with rising numbers', () => {
    const [first, second] = candidates(hostnames, 'proj_1', 'web')
    expect([first, second]).toEqual([
      { hostname: 'web-proj_1.apps.example.com' },
      { hostname: 'web-2-proj_1.apps.example.com' },
    ])
  })
})
