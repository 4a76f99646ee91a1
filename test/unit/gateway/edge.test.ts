import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type EdgeGateway, from, startEdge } from '../../harness/gateway/edge.ts'
import { ask, createScope, rawClient, startApp, type TestApp } from '../../harness/gateway/harness.ts'

const scope = createScope()
let at: EdgeGateway
/** Answers with the received request. */
let mirror: TestApp
beforeAll(async () => {
  at = await startEdge(scope)
  mirror = await startApp(scope, (req, res) => {
    res.end(JSON.stringify({ url: req.url, headers: req.headers, raw: req.rawHeaders }))
  })
  await at.gateway.open('mirror', { hostname: 'mirror.example' })
  await at.gateway.route('mirror', mirror.upstream)
})
afterAll(() => scope.end())
beforeEach(() => at.gateway.name('app', []))

const bodyAt = async (host: string) => (await ask(at.edge, { headers: from(host) })).body
const statusAt = async (host: string) => (await ask(at.edge, { headers: from(host) })).status

describe('an app behind an edge', () => {
  it('answers at its address and at its other names, until it loses them', async () => {
    expect(await bodyAt('a.example')).toBe('hi')
    expect(await statusAt('shop.test')).toBe(404)
    await at.gateway.name('app', [{ hostname: 'shop.test', redirectTo: null }])
    expect(await bodyAt('shop.test')).toBe('hi')
    expect(at.gateway.names()).toEqual([{ appId: 'app', names: [{ hostname: 'shop.test', redirectTo: null }] }])
    await at.gateway.name('app', [{ hostname: 'other.test', redirectTo: null }])
    expect([await statusAt('shop.test'), await statusAt('other.test')]).toEqual([404, 200])
  })

  it('has its names when it opens after they were assigned, and none when it is closed', async () => {
    await at.gateway.name('late', [{ hostname: 'late.test', redirectTo: null }])
    expect(await statusAt('late.test')).toBe(404)
    await at.gateway.open('late', { hostname: 'late.example' })
    await at.gateway.route('late', at.app.upstream)
    expect(await bodyAt('late.test')).toBe('hi')
    await at.gateway.open('late', { hostname: 'moved.example' })
    expect([await bodyAt('late.test'), await bodyAt('moved.example')]).toEqual(['hi', 'hi'])
    await at.gateway.close('late')
    expect(await statusAt('late.test')).toBe(404)
    await at.gateway.open('late', { hostname: 'late.example' })
    expect(await statusAt('late.test')).toBe(404)
    await at.gateway.close('late')
  })

  it('yields a name to the app that gets it last', async () => {
    await at.gateway.name('app', [
      { hostname: 'shop.test', redirectTo: null },
      { hostname: 'kept.test', redirectTo: null },
    ])
    await at.gateway.name('mirror', [{ hostname: 'shop.test', redirectTo: null }])
    expect(await bodyAt('shop.test')).toContain('"host":"shop.test"')
    expect(await bodyAt('kept.test')).toBe('hi')
    await at.gateway.name('app', [])
    expect(await bodyAt('shop.test')).toContain('"host":"shop.test"')
    await at.gateway.name('mirror', [])
    expect(await statusAt('shop.test')).toBe(404)
  })

  it('with a wildcard has all names of one more label, except names with an exact assignment', async () => {
    await at.gateway.name('mirror', [{ hostname: '*.shop.test', redirectTo: null }])
    await at.gateway.name('app', [{ hostname: 'exact.shop.test', redirectTo: null }])
    expect(await bodyAt('any.shop.test')).toContain('"host":"any.shop.test"')
    expect(await bodyAt('exact.shop.test')).toBe('hi')
    for (const host of ['shop.test', 'two.any.shop.test', '.shop.test', '*.shop.test', 'a b.shop.test', '"<.shop.test'])
      expect([host, await statusAt(host)]).toEqual([host, 404])
    await at.gateway.name('mirror', [])
  })

  it('never has a host of the server itself, nor another app’s address', async () => {
    await at.gateway.name('app', [
      { hostname: 'fairlead.example', redirectTo: null },
      { hostname: 'mirror.example', redirectTo: null },
    ])
    expect(await statusAt('fairlead.example')).toBe(404)
    expect(await statusAt('FAIRLEAD.example.:443')).toBe(404)
    expect(await bodyAt('mirror.example')).toContain('"host":"mirror.example"')
  })

  it('redirects visitors from one name to another, with path and query', async () => {
    await at.gateway.name('app', [
      { hostname: 'www.shop.test', redirectTo: 'shop.test' },
      { hostname: 'shop.test', redirectTo: null },
    ])
    for (const method of ['GET', 'POST']) {
      const { status, headers } = await ask(at.edge, { method, path: '//a/b?c=%20d&e', headers: from('www.shop.test') })
      expect([status, headers.location]).toEqual([308, 'https://shop.test//a/b?c=%20d&e'])
      expect(headers['cache-control']).toBe('no-store')
    }
    expect(await bodyAt('shop.test')).toBe('hi')
    await at.gateway.route('app', null)
    expect(await statusAt('www.shop.test')).toBe(308)
    await at.gateway.route('app', at.app.upstream)
  })

  it('sets host-only cookies at its address, and cookies for any domain at a custom domain', async () => {
    const setting = await startApp(scope, (_, res) => res.setHeader('Set-Cookie', 'a=1; Domain=apps.test').end())
    await at.gateway.open('setting', { hostname: 'setting.apps.test' })
    await at.gateway.route('setting', setting.upstream)
    await at.gateway.name('setting', [{ hostname: 'www.apps.test', redirectTo: null }])
    const cookiesAt = async (place: number | string, host: string) =>
      (await ask(place, { headers: from(host) })).headers['set-cookie']
    expect(await cookiesAt(at.edge, 'Setting.Apps.test:443')).toEqual(['a=1'])
    expect(await cookiesAt(at.port, 'setting.apps.test')).toEqual(['a=1'])
    expect(await cookiesAt(at.edge, 'www.apps.test')).toEqual(['a=1; Domain=apps.test'])
    await at.gateway.close('setting')
  })

  it('is never served over plain HTTP: the visitor is redirected to HTTPS', async () => {
    const headers = from('A.example', { 'X-Forwarded-Proto': 'http' })
    const { status, headers: answered } = await ask(at.edge, { path: '/.well-known/acme-challenge/x?y', headers })
    expect([status, answered.location]).toEqual([308, 'https://a.example/.well-known/acme-challenge/x?y'])
  })

  it('has names that DNS could have; others are refused before they reach the gateway', async () => {
    for (const hostname of [
      '',
      'a b',
      'UPPER.test',
      'dot.test.',
      '*',
      '*.*.test',
      '1.2.3.4',
      `${'a'.repeat(64)}.test`,
    ]) {
      await expect(at.gateway.name('app', [{ hostname, redirectTo: null }])).rejects.toThrow(TypeError)
      await expect(at.gateway.name('app', [{ hostname: 'a.test', redirectTo: hostname }])).rejects.toThrow(TypeError)
      await expect(at.gateway.certify(hostname, null)).rejects.toThrow(TypeError)
    }
    await expect(at.gateway.name('app', [{ hostname: 'a.test', redirectTo: '*.test' }])).rejects.toThrow(TypeError)
    await expect(at.gateway.certify('a.test', 'no PEM')).rejects.toThrow(TypeError)
    expect(await bodyAt('a.example')).toBe('hi')
  })
})

it('names the port of the edge in redirects where it is not the usual port', async () => {
  const own = createScope()
  const { gateway, edge } = await startEdge(own, { edge: { hosts: [], httpsPort: 8443 } })
  await gateway.name('app', [{ hostname: 'www.test', redirectTo: 'b.test' }])
  expect((await ask(edge, { headers: from('www.test') })).headers.location).toBe('https://b.test:8443/')
  await own.end()
})

describe('a response at a path', () => {
  it('precedes any app for every host and scheme, byte by byte', async () => {
    const path = '/.well-known/acme-challenge/tok_en-1'
    await at.gateway.answerAt(path, 'token.thumbprint')
    for (const host of ['a.example', 'unknown.test', 'fairlead.example', '[::1]:80']) {
      const headers = from(host, { 'X-Forwarded-Proto': 'http' })
      const answer = await ask(at.edge, { path: `${path}?x=1`, headers })
      expect([answer.status, answer.body]).toEqual([200, 'token.thumbprint'])
      expect((await ask(at.edge, { method: 'HEAD', path, headers })).headers['content-length']).toBe('16')
    }
    expect(at.gateway.answers()).toEqual([path])
    expect((await ask(at.edge, { path: `${path}/`, headers: from('a.example') })).body).toBe('hi')
    expect((await ask(at.edge, { path, method: 'POST', headers: from('a.example') })).body).toBe('hi')
    expect((await ask(at.port, { path, headers: from('a.example') })).body).toBe('hi')
    expect((await ask(at.port, { path, headers: from('unknown.test') })).status).toBe(404)
    await at.gateway.answerAt(path, null)
    expect((await ask(at.edge, { path, headers: from('a.example') })).body).toBe('hi')
    expect(at.gateway.answers()).toEqual([])
  })

  it('is a text below /.well-known/', async () => {
    for (const path of ['/', '/.well-known/', '/.well-known/a b', '/.well-known/a?b', '/well-known/a'])
      await expect(at.gateway.answerAt(path, 'x')).rejects.toThrow(TypeError)
    await expect(at.gateway.answerAt('/.well-known/x', 'x'.repeat(65 * 1024))).rejects.toThrow(TypeError)
  })
})

describe('about the client,', () => {
  const mirrored = async (place: number | string, headers: Record<string, string>) =>
    JSON.parse((await ask(place, { headers })).body).headers as Record<string, string>
  const claims = {
    'X-Forwarded-Port': '1',
    'X-Forwarded-Server': 'evil',
    x_forwarded_for: '6.6.6.6',
    Forwarded: 'for=6.6.6.6',
    'X-Real-IP': '6.6.6.6',
  }

  it('an app receives the edge’s information, and nothing that the client has forged', async () => {
    const headers = await mirrored(
      at.edge,
      from('mirror.example', { ...claims, 'X-Forwarded-For': '1.2.3.4, 5.6.7.8' }),
    )
    const told = Object.entries(headers).filter(([name]) => /forwarded|real/.test(name))
    expect(Object.fromEntries(told)).toEqual({
      'x-forwarded-for': '1.2.3.4, 5.6.7.8',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'mirror.example',
    })
  })

  it('an app receives no unknown information, and learns that the scheme is HTTPS', async () => {
    const headers = await mirrored(at.edge, { Host: 'mirror.example', Connection: 'X-Forwarded-For' })
    expect(headers).not.toHaveProperty('x-forwarded-for')
    expect(headers).toMatchObject({ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'mirror.example' })
  })

  it('a peer of the port is not trusted, even when it claims to be this machine', async () => {
    const claimed = from('mirror.example', { ...claims, 'X-Forwarded-For': '127.0.0.1', 'X-Forwarded-Host': 'evil' })
    const headers = await mirrored(at.port, claimed)
    const told = Object.entries(headers).filter(([name]) => /forwarded|real/.test(name))
    expect(Object.fromEntries(told)).toEqual({
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'mirror.example',
    })
  })

  it('only the edge has names: the port has no names, redirects and fixed responses', async () => {
    await at.gateway.name('app', [{ hostname: 'shop.test', redirectTo: null }])
    expect((await ask(at.port, { headers: { Host: 'shop.test' } })).status).toBe(404)
    const plain = from('a.example', { 'X-Forwarded-Proto': 'http' })
    expect((await ask(at.port, { headers: plain })).body).toBe('hi')
  })
})

describe('the host of a request', () => {
  /** Sends the lines of a head, and resolves with the response. */
  const sending = async (...lines: string[]): Promise<string> => {
    const client = await rawClient(scope, at.edge)
    client.socket.write(`${[...lines, 'Connection: close', '', ''].join('\r\n')}`)
    return client.closed()
  }
  const hostTold = (answer: string): unknown => JSON.parse(answer.slice(answer.indexOf('{'))).headers.host

  it('is compared without case, port and final dot', async () => {
    for (const host of ['A.EXAMPLE', 'a.example.', 'a.example:443', 'A.Example.:8443'])
      expect(await bodyAt(host)).toBe('hi')
    for (const host of [
      'a.example..',
      'a.example.evil.test',
      'xa.example',
      'a.example@evil.test',
      'evil.test#a.example',
    ])
      expect([host, await statusAt(host)]).toEqual([host, 404])
  })

  it('is the host of an absolute target, for the route and for the app alike', async () => {
    const answer = await sending('GET http://mirror.example/x HTTP/1.1', 'Host: fairlead.example')
    expect(hostTold(answer)).toBe('mirror.example')
    expect(await sending('GET http://fairlead.example/ HTTP/1.1', 'Host: a.example')).toContain('HTTP/1.1 404')
    expect(await sending('GET https://u@a.example/ HTTP/1.1', 'Host: a.example')).toContain('HTTP/1.1 400')
  })

  it('has 16 KiB for all headers; beyond that the response is 431', async () => {
    for (const place of [at.edge, at.port])
      for (const [bytes, status] of [
        [15_000, 200],
        [20_000, 431],
        [30_000, 431],
      ] as const) {
        const headers = from('a.example', { 'X-Long': 'x'.repeat(bytes) })
        expect([place, bytes, (await ask(place, { headers })).status]).toEqual([place, bytes, status])
      }
  })

  it('is refused when it is repeated or invalid, even where the gateway itself answers', async () => {
    await at.gateway.name('app', [{ hostname: 'www.test', redirectTo: 'shop.test' }])
    for (const [first, second] of [
      ['a.example', 'fairlead.example'],
      ['a.example', 'a.example'],
      ['www.test', 'a.example'],
    ])
      expect(await sending('GET / HTTP/1.1', `Host: ${first}`, `Host: ${second}`)).toContain('HTTP/1.1 400')
    expect(await sending('GET / HTTP/1.1')).toContain('HTTP/1.1 400')
    expect(await sending('GET / HTTP/1.1', 'Host: a.example:80:90')).toContain('HTTP/1.1 400')
    expect(await sending('GET / HTTP/1.1', 'Host: a.example, fairlead.example')).toContain('HTTP/1.1 404')
  })
})
