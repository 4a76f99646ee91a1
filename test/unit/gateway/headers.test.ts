import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { appCookies, setsFairleadCookie } from '../../../server/src/gateway/http1/cookies.ts'
import { contentLength } from '../../../server/src/gateway/http1/raw-headers.ts'
import { type Peer, requestHead } from '../../../server/src/gateway/http1/request-head.ts'
import { interimHeaders, responseHead, trailerFields } from '../../../server/src/gateway/http1/response-head.ts'
import { hostnameOf, parseTarget } from '../../../server/src/gateway/http1/target.ts'

const stranger: Peer = { address: '203.0.113.9', trusted: false, scheme: 'http' }
const proxy: Peer = { address: '10.0.0.1', trusted: true, scheme: 'http' }

function head(
  rawHeaders: string[],
  { method = 'GET', peer = stranger, upgrade = false, authority = null as string | null } = {},
) {
  return requestHead({ method, rawHeaders, authority, defaultHost: 'default:1', upgrade, peer })
}

function headersOf(rawHeaders: string[], options: Parameters<typeof head>[1] = {}): string[] {
  const result = head(rawHeaders, options)
  if (!result.ok) throw new Error(result.message)
  return result.headers
}

function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  return rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name)
}

const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade']

const anyName = fc.oneof(
  fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,11}$/),
  fc.constantFrom('Host', 'Content-Length', 'Transfer-Encoding', 'Connection', 'TE', 'Upgrade', 'Keep-Alive', 'Cookie'),
  fc.constantFrom(
    'X-Forwarded-For',
    'x_forwarded_for',
    'Forwarded',
    'X-Real-IP',
    'Trailer',
    'Set-Cookie',
    'X-Fairlead-Deployment',
  ),
)
const anyValue = fc.oneof(
  fc.stringMatching(/^[\x21-\x7e]{0,12}$/),
  fc.constantFrom(
    'chunked',
    'close',
    'keep-alive, X-Own',
    'host, content-length',
    '5',
    'trailers',
    'fairlead_session=x; a=b',
  ),
)
const anyHeaders = fc.array(fc.tuple(anyName, anyValue), { maxLength: 12 }).map((pairs) => pairs.flat())

describe('the head of a request', () => {
  it('has exactly one host and at most one framing, for every input', () => {
    fc.assert(
      fc.property(anyHeaders, fc.constantFrom('GET', 'POST', 'DELETE', 'PROPFIND'), (rawHeaders, method) => {
        const result = head(rawHeaders, { method })
        if (!result.ok) return
        const { headers } = result
        expect(valuesOf(headers, 'host')).toHaveLength(1)
        const framings = [...valuesOf(headers, 'content-length'), ...valuesOf(headers, 'transfer-encoding')]
        expect(framings.length).toBeLessThanOrEqual(1)
        if (method === 'POST' || method === 'PROPFIND') expect(framings).toHaveLength(1)
        expect(result.hasBody).toBe(framings.some((framing) => framing === 'chunked' || Number(framing) > 0))
      }),
    )
  })

  it('describes only the client’s connection when the peer is not trusted', () => {
    fc.assert(
      fc.property(anyHeaders, (rawHeaders) => {
        const result = head(rawHeaders)
        if (!result.ok) return
        const names = result.headers
          .filter((_, i) => i % 2 === 0)
          .map((name) => name.toLowerCase().replaceAll('_', '-'))
        expect(valuesOf(result.headers, 'x-forwarded-for')).toEqual(['203.0.113.9'])
        expect(valuesOf(result.headers, 'x-forwarded-proto')).toEqual(['http'])
        expect(names.filter((name) => name === 'x-forwarded-for')).toHaveLength(1)
        expect(names).not.toContain('forwarded')
        expect(names).not.toContain('x-real-ip')
      }),
    )
  })

  it('keeps case, order and repetitions of all other headers', () => {
    const own = ['ACCEPT', '*/*', 'x-B', '1', 'X-a', '2', 'x-b', '3', 'accept', 'text/html']
    expect(headersOf(['Host', 'a.example', ...own]).slice(2, 2 + own.length)).toEqual(own)
  })

  it('loses what Connection names, but never host and framing', () => {
    const headers = headersOf(
      [
        'Host',
        'a',
        'X-One',
        '1',
        'Connection',
        'close, x-one, Host, Content-Length',
        'Content-Length',
        '3',
        'X-Two',
        '2',
      ],
      { method: 'POST' },
    )
    expect(headers.slice(0, 6)).toEqual(['Host', 'a', 'Content-Length', '3', 'X-Two', '2'])
    expect(valuesOf(headers, 'connection')).toEqual(['keep-alive'])
  })

  it('requests trailers where the client does, and no other transfer coding', () => {
    expect(valuesOf(headersOf(['Host', 'a', 'TE', 'gzip, trailers']), 'te')).toEqual(['trailers'])
    expect(valuesOf(headersOf(['Host', 'a', 'TE', 'gzip, trailers']), 'connection')).toEqual(['keep-alive, TE'])
    expect(valuesOf(headersOf(['Host', 'a', 'TE', 'gzip']), 'te')).toEqual([])
  })

  it('carries Upgrade only when the connection is to be upgraded', () => {
    const raw = ['Host', 'a', 'Connection', 'Upgrade', 'Upgrade', 'websocket']
    expect(valuesOf(headersOf(raw), 'upgrade')).toEqual([])
    expect(valuesOf(headersOf(raw, { upgrade: true }), 'upgrade')).toEqual(['websocket'])
    expect(valuesOf(headersOf(raw, { upgrade: true }), 'connection')).toEqual(['Upgrade'])
  })

  it('refuses two lengths, two hosts and unknown transfer codings', () => {
    expect(head(['Host', 'a', 'Content-Length', '1', 'Content-Length', '1'])).toMatchObject({ ok: false, status: 400 })
    expect(head(['Host', 'a', 'Content-Length', '1', 'Transfer-Encoding', 'chunked'])).toMatchObject({ status: 400 })
    expect(head(['Host', 'a', 'host', 'b'])).toMatchObject({ ok: false, status: 400 })
    expect(head(['Host', 'a', 'Transfer-Encoding', 'gzip, chunked'])).toMatchObject({ ok: false, status: 501 })
    expect(head(['Host', 'a', 'Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked'])).toMatchObject({
      status: 501,
    })
  })

  it('trusts and extends a trusted proxy’s information', () => {
    const headers = headersOf(
      [
        ...[
          'Host',
          'inner',
          'X-Forwarded-For',
          '198.51.100.1',
          'x-forwarded-for',
          '198.51.100.2',
          'Forwarded',
          'for=x',
        ],
        ...['X-Forwarded-Proto', 'https', 'X-Forwarded-Host', 'shop.example', 'X_Forwarded_For', '6.6.6.6'],
      ],
      { peer: proxy },
    )
    expect(valuesOf(headers, 'x-forwarded-for')).toEqual(['198.51.100.1, 198.51.100.2, 10.0.0.1'])
    expect(valuesOf(headers, 'x-forwarded-proto')).toEqual(['https'])
    expect(valuesOf(headers, 'x-forwarded-host')).toEqual(['shop.example'])
    expect(valuesOf(headers, 'forwarded')).toEqual(['for=x'])
    expect(valuesOf(headers, 'x_forwarded_for')).toEqual([])
  })

  it('takes the host from the request line before the Host header', () => {
    const headers = headersOf(['Host', 'other'], { authority: 'a.example' })
    expect(valuesOf(headers, 'host')).toEqual(['a.example'])
    expect(valuesOf(headers, 'x-forwarded-host')).toEqual(['a.example'])
    expect(valuesOf(headersOf([]), 'host')).toEqual(['default:1'])
  })
})

describe('the head of a response', () => {
  const answerHead = (
    rawHeaders: string[],
    { status = 200, trailersPossible = true, site = null as string | null } = {},
  ) => responseHead({ status, rawHeaders, trailersPossible, deploymentId: 'dep_1', sharedSite: () => site })

  it('carries the deployment once and no connection headers, whatever the app sent', () => {
    fc.assert(
      fc.property(anyHeaders, (rawHeaders) => {
        const headers = answerHead(rawHeaders)
        if (headers === null) return
        expect(valuesOf(headers, 'x-fairlead-deployment')).toEqual(['dep_1'])
        for (const name of HOP_BY_HOP) expect(valuesOf(headers, name)).toEqual([])
        expect(valuesOf(headers, 'set-cookie').filter((value) => value.startsWith('fairlead_'))).toEqual([])
        const kept = headers.filter((_, i) => i % 2 === 0).slice(0, -1)
        const order = kept.filter((name) => name !== 'Trailer')
        let from = 0
        for (const name of order) {
          from = rawHeaders.findIndex((candidate, i) => i >= from && i % 2 === 0 && candidate === name) + 2
          expect(from).toBeGreaterThan(1)
        }
      }),
    )
  })

  it('scopes cookies to the host beside other apps, and changes no other part of them', () => {
    const cookiesOf = (cookie: string, site: string | null) =>
      valuesOf(answerHead(['Set-Cookie', cookie, 'Set-Cookie', 'b=2; Path=/'], { site }) ?? [], 'set-cookie')
    const site = 'shop.apps.example.com'
    for (const domain of ['apps.example.com', '.apps.example.com', 'Example.COM', ' com '])
      for (const name of ['Domain', 'domain ', 'DOMAIN'])
        expect(cookiesOf(`a=1; Path=/;${name}=${domain}; HttpOnly`, site)).toEqual([
          'a=1; Path=/; HttpOnly',
          'b=2; Path=/',
        ])
    expect(cookiesOf('a=1;Domain=example.com;Domain=apps.example.com', site)).toEqual(['a=1', 'b=2; Path=/'])
    for (const cookie of [
      'a=1; Domain=shop.apps.example.com',
      'a=1; Domain=other.example.net',
      'a=1; Domain=ps.example.com',
      'a=1; Domain; Secure',
      'a=1; Domain=',
      'domain=example.com; Path=/domain=example.com',
    ])
      expect(cookiesOf(cookie, site)).toEqual([cookie, 'b=2; Path=/'])
    expect(cookiesOf('a=1; Domain=example.com', null)).toEqual(['a=1; Domain=example.com', 'b=2; Path=/'])
  })

  it('announces trailers only where trailers can follow', () => {
    expect(valuesOf(answerHead(['Trailer', 'X-Sum']) ?? [], 'trailer')).toEqual(['X-Sum'])
    expect(valuesOf(answerHead(['Trailer', 'X-Sum', 'Content-Length', '1']) ?? [], 'trailer')).toEqual([])
    expect(valuesOf(answerHead(['Trailer', 'X-Sum'], { trailersPossible: false }) ?? [], 'trailer')).toEqual([])
  })

  it('has no length with 204, and is refused with an unknown transfer coding', () => {
    expect(answerHead(['Content-Length', '0'], { status: 204 })).toEqual(['X-Fairlead-Deployment', 'dep_1'])
    expect(answerHead(['Transfer-Encoding', 'gzip, chunked'])).toBeNull()
  })

  it('keeps the length of its body, if any', () => {
    expect(contentLength(answerHead(['ETag', '"9"', 'content-LENGTH', '007']) ?? [])).toBe(7)
    expect(contentLength(answerHead(['ETag', 'Content-Length']) ?? [])).toBeNull()
    expect(contentLength(answerHead(['Content-Length', '7'], { status: 204 }) ?? [])).toBeNull()
  })

  it('passes trailers that are neither framing nor routing', () => {
    expect(trailerFields(['X-Sum', '1', 'Content-Length', '9', 'X-Forwarded-For', 'x', 'x-sum', '2'])).toEqual([
      ['X-Sum', '1'],
      ['x-sum', '2'],
    ])
    expect(interimHeaders(['Link', '</a.css>', 'Connection', 'x-own', 'X-Own', '1'])).toEqual(['Link', '</a.css>'])
  })
})

describe('cookies', () => {
  it('of Fairlead are removed, all others pass unchanged', () => {
    expect(appCookies('a=1; b="x;y"')).toBe('a=1; b="x;y"')
    expect(appCookies('a=1; fairlead_session=s; b=2')).toBe('a=1; b=2')
    expect(appCookies('__Host-fairlead_session=s')).toBeNull()
    expect(appCookies('note=fairlead_session=1')).toBe('note=fairlead_session=1')
    expect(setsFairleadCookie('__Host-fairlead_session=; Path=/')).toBe(true)
    expect(setsFairleadCookie('=fairlead_session=evil')).toBe(true)
    expect(setsFairleadCookie('session=1; Path=/fairlead_x')).toBe(false)
  })
})

describe('request targets and hosts', () => {
  it('are parsed in origin, absolute and asterisk form', () => {
    expect(parseTarget('/a?b=c')).toEqual({ path: '/a?b=c', authority: null })
    expect(parseTarget('*')).toEqual({ path: '*', authority: null })
    expect(parseTarget('http://a.example:81/x?y')).toEqual({ path: '/x?y', authority: 'a.example:81' })
    expect(parseTarget('HTTP://a.example?y')).toEqual({ path: '/?y', authority: 'a.example' })
    for (const target of ['', 'a', 'ftp://a/', 'http:///x', 'http://u@a/', 'http://a/#f'])
      expect(parseTarget(target)).toBeNull()
  })

  it('compare without case, port and final dot', () => {
    expect(hostnameOf('Shop.Example.:8080')).toBe('shop.example')
    expect(hostnameOf('[::1]:80')).toBe('[::1]')
    expect(hostnameOf('[::1]')).toBe('[::1]')
  })
})
