import type { Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import {
  ask,
  createScope,
  processDeath,
  rawClient,
  startApp,
  startGateway,
  textOf,
} from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(() => scope.end())

/** The bytes that may arrive at the app from a request that the gateway has aborted in the middle of its body. */
const BROKEN_OFF = ['ECONNRESET', 'HPE_INVALID_EOF_STATE']

/** An app that records complete requests and parse errors, and a gateway before it. */
async function startWitness() {
  const died = processDeath(scope)
  const seen: string[] = []
  const unreadable: unknown[] = []
  const app = await startApp(scope, async (req, res) => {
    const body = await textOf(req).catch(() => null)
    if (body === null) return
    seen.push(`${req.method} ${req.url} ${req.headers.host} ${body}`)
    res.end('ok')
  })
  app.server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (!BROKEN_OFF.includes(error.code ?? '')) unreadable.push(error)
    socket.destroy()
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  return {
    /** Returns what the client receives and the app sees for these bytes. Fails when the gateway does not survive. */
    async send(bytes: string): Promise<{ received: string; seen: string[] }> {
      const client = await rawClient(scope, port)
      client.socket.write(bytes, 'latin1')
      const received = await Promise.race([client.closed(), died])
      const before = seen.splice(0)
      expect((await Promise.race([ask(port, { path: '/after' }), died])).body).toBe('ok')
      expect(seen.splice(0)).toHaveLength(1)
      expect(unreadable).toEqual([])
      return { received, seen: before }
    },
  }
}

const EVIL = 'GET /evil HTTP/1.1\r\nHost: a\r\n\r\n'
const framed = (fields: string, body = '0\r\n\r\n') => `POST / HTTP/1.1\r\nHost: a\r\n${fields}\r\n\r\n${body}${EVIL}`
const chunks = (body: string) => framed('Transfer-Encoding: chunked', body)
const host = (value: string) => `GET /evil HTTP/1.1\r\nHost: ${value}\r\nConnection: close\r\n\r\n`
const line = (value: string) => `${value}\r\nHost: a\r\nConnection: close\r\n\r\n`

describe('passes no complete request to the app, and survives, given', () => {
  it.each([
    ['a length and chunks', framed('Content-Length: 5\r\nTransfer-Encoding: chunked')],
    ['chunks and a length', framed('Transfer-Encoding: chunked\r\nContent-Length: 5')],
    ['a length and an unknown coding', framed('Content-Length: 5\r\nTransfer-Encoding: x')],
    ['xchunked', framed('Transfer-Encoding: xchunked')],
    ['chunkedx', framed('Transfer-Encoding: chunkedx')],
    ['chunked, then another coding', framed('Transfer-Encoding: chunked\r\nTransfer-Encoding: x')],
    ['another coding, then chunked', framed('Transfer-Encoding: x\r\nTransfer-Encoding: chunked')],
    ['chunked twice', framed('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked')],
    ['chunked twice in a list', framed('Transfer-Encoding: chunked, chunked')],
    ['a comma before chunked', framed('Transfer-Encoding: , chunked')],
    ['chunked in quotes', framed('Transfer-Encoding: "chunked"')],
    ['chunked with a parameter', framed('Transfer-Encoding: chunked;q=1')],
    ['a vertical tab before chunked', framed('Transfer-Encoding: \x0bchunked')],
    ['a NUL behind chunked', framed('Transfer-Encoding: chunked\0')],
    ['a no-break space before chunked', framed('Transfer-Encoding: \xa0chunked')],
    ['chunked on a folded line', framed('Transfer-Encoding:\r\n chunked')],
    ['a folded line behind a coding', framed('Transfer-Encoding: chunked\r\n , x')],
    ['a space before the colon', framed('Transfer-Encoding : chunked')],
    ['a tab before the colon', framed('Content-Length\t: 5')],
    ['a NUL in a name', framed('Content-Length\0: 5')],
    ['a folded first line', `POST / HTTP/1.1\r\n Host: a\r\nContent-Length: 5\r\n\r\n01234${EVIL}`],
    ['a line without colon', framed('Content-Length')],
    ['an empty name', framed(': 5')],
    ['an empty length', framed('Content-Length:')],
    ['the same length twice', framed('Content-Length: 5\r\nContent-Length: 5')],
    ['two lengths', framed('Content-Length: 5\r\nContent-Length: 6')],
    ['a list of lengths', framed('Content-Length: 5, 5')],
    ['a length with a space', framed('Content-Length: 5 0')],
    ['a negative length', framed('Content-Length: -5')],
    ['a signed length', framed('Content-Length: +5')],
    ['a length in hexadecimal', framed('Content-Length: 0x5')],
    ['a length with an exponent', framed('Content-Length: 5e0')],
    ['a length with underscores', framed('Content-Length: 0_5')],
    ['a length that overflows', framed(`Content-Length: ${'9'.repeat(30)}`)],
    ['a bare line feed behind a value', framed('X: 1\nContent-Length: 5')],
    ['a bare carriage return behind a value', framed('X: 1\rContent-Length: 5')],
    ['a line feed that ends the head', `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\n\n01234${EVIL}`],
    ['a signed chunk size', chunks('+3\r\nabc\r\n0\r\n\r\n')],
    ['a chunk size with a prefix', chunks('0x3\r\nabc\r\n0\r\n\r\n')],
    ['a chunk size behind a space', chunks(' 3\r\nabc\r\n0\r\n\r\n')],
    ['a chunk size with an underscore', chunks('0_3\r\nabc\r\n0\r\n\r\n')],
    ['a chunk size that overflows', chunks(`${'f'.repeat(17)}\r\nabc\r\n0\r\n\r\n`)],
    ['no chunk size', chunks('\r\nabc\r\n0\r\n\r\n')],
    ['a chunk without end', chunks('3\r\nabc0\r\n\r\n')],
    ['a chunk that ends with a line feed', chunks('3\r\nabc\n0\r\n\r\n')],
    ['a line feed behind a chunk size', chunks('3\nabc\r\n0\r\n\r\n')],
    ['a line feed in a chunk extension', chunks('3;a\nb\r\nabc\r\n0\r\n\r\n')],
    ['a carriage return in a chunk extension', chunks('3;a\rb\r\nabc\r\n0\r\n\r\n')],
    ['a control character in a chunk extension', chunks('3;\x01\r\nabc\r\n0\r\n\r\n')],
    ['an endless chunk extension', chunks(`3;${'x'.repeat(100_000)}\r\nabc\r\n0\r\n\r\n`)],
    ['a trailer without colon', chunks('0\r\nnonsense\r\n\r\n')],
    ['a trailer with a NUL', chunks('0\r\nX: \0\r\n\r\n')],
    ['a tab behind chunked', framed('Transfer-Encoding: chunked \t ')],
    ['framing in trailers', chunks('0\r\nContent-Length: 9\r\nHost: b\r\n\r\n')],
    ['no host', 'GET /evil HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['two hosts', host('a\r\nHost: b')],
    ['the same host twice', host('a\r\nhost: a')],
    ['a host with a space', host('a b')],
    ['a host with a path', host('a/b')],
    ['a host with a user', host('u@a')],
    ['a host with a query', host('a?b')],
    ['a host with a fragment', host('a#b')],
    ['a host with a backslash', host('a\\b')],
    ['a list of hosts', host('a, b')],
    ['hosts with a comma', host('a,b')],
    ['a host with quotes', host('"a"')],
    ['a host with a tag', host('<a>')],
    ['a host with two ports', host('a:1:2')],
    ['a host with an invalid port', host('a:b')],
    ['a host with a NUL', host('a\0b')],
    ['a host with high bytes', host('\xe4')],
    ['an address in open brackets', host('[::1')],
    ['an asterisk with GET', line('GET * HTTP/1.1')],
    ['an authority with GET', line('GET a:80 HTTP/1.1')],
    ['a path without slash', line('GET evil HTTP/1.1')],
    ['another scheme', line('GET file:///evil HTTP/1.1')],
    ['an absolute form without host', line('GET http:///evil HTTP/1.1')],
    ['an absolute form with a user', line('GET http://u@a/evil HTTP/1.1')],
    ['an absolute form with an odd host', line('GET http://a\\b/evil HTTP/1.1')],
    ['an absolute form with two ports', line('GET http://a:1:2/evil HTTP/1.1')],
    ['a space in the target', line('GET /a b HTTP/1.1')],
    ['a NUL in the target', line('GET /\0 HTTP/1.1')],
    ['a control character in the target', line('GET /\x01 HTTP/1.1')],
    ['a line feed in the target', line('GET /\n HTTP/1.1')],
    ['CONNECT', line('CONNECT a:80 HTTP/1.1')],
    ['CONNECT with a path', line('CONNECT /evil HTTP/1.1')],
    ['a method in small letters', line('get /evil HTTP/1.1')],
    ['an unknown method', line('EVIL /evil HTTP/1.1')],
    ['a space before the method', line(' GET /evil HTTP/1.1')],
    ['HTTP/0.9', 'GET /evil\r\n\r\n'],
    ['HTTP/2', line('GET /evil HTTP/2.0')],
    ['HTTP/9.9', line('GET /evil HTTP/9.9')],
    ['a version in small letters', line('GET /evil http/1.1')],
    ['a huge target', line(`GET /${'x'.repeat(100_000)} HTTP/1.1`)],
    ['a huge header', framed(`X: ${'x'.repeat(100_000)}`)],
  ])('%s', async (_, bytes) => {
    const { send } = await startWitness()
    const { received, seen } = await send(bytes)
    expect(received).toMatch(/^(HTTP\/1\.1 (4\d\d|501|505) |$)/)
    expect(received).not.toContain('HTTP/1.1 200')
    expect(seen).toEqual([])
  })
})

describe('sees one request and then the next, given', () => {
  const last = (fields: string, body: string) => `POST / HTTP/1.1\r\nHost: a\r\n${fields}\r\n\r\n${body}`
  const open = (value: string) => `${value}\r\nHost: a\r\n\r\n`
  const next = 'GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  const chunked = 'Transfer-Encoding: chunked'
  it.each([
    ['chunked in other letters', last('tRANSFER-eNCODING: CHUNKED', '2\r\nhi\r\n0\r\n\r\n'), 'POST / a hi'],
    ['chunk extensions', last(chunked, '2;a=b;c="d"\r\nhi\r\n0;e\r\n\r\n'), 'POST / a hi'],
    ['a chunk size with zeros', last(chunked, '0002\r\nhi\r\n000\r\n\r\n'), 'POST / a hi'],
    ['a length with zeros', last('Content-Length: 0002', 'hi'), 'POST / a hi'],
    ['a length between spaces', last('Content-Length: \t2 \t', 'hi'), 'POST / a hi'],
    ['a length that Connection names', last('Connection: content-length\r\nContent-Length: 2', 'hi'), 'POST / a hi'],
    ['a coding that Connection names', last(`Connection: transfer-encoding\r\n${chunked}`, '0\r\n\r\n'), 'POST / a '],
    ['a GET with a body', `GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi`, 'GET / a hi'],
    ['empty lines before it', `\r\n\r\n${open('GET / HTTP/1.1')}`, 'GET / a '],
    ['a host and a port', `GET / HTTP/1.1\r\nHost: a:80\r\n\r\n`, 'GET / a:80 '],
    ['an address and a port', `GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n`, 'GET / [::1]:80 '],
    ['the absolute form', open('GET http://b:1?x HTTP/1.1'), 'GET /?x b:1 '],
    ['two slashes', open('GET //b/x HTTP/1.1'), 'GET //b/x a '],
    ['OPTIONS *', open('OPTIONS * HTTP/1.1'), 'OPTIONS * a '],
    ['TRACE', open('TRACE / HTTP/1.1'), 'TRACE / a '],
    ['HTTP/1.0', 'GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n', 'GET / a '],
  ])('%s', async (_, bytes, expected) => {
    const { send } = await startWitness()
    const { received, seen } = await send(bytes + next)
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200'])
    expect(seen).toEqual([expected, 'GET /next a '])
  })
})

it('takes no upgrade in HTTP/1.0', async () => {
  const { send } = await startWitness()
  const { seen } = await send('GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
  expect(seen).toEqual(['GET / a '])
})

it.each([
  ['HTTP/1.1', 'GET /1 HTTP/1.1\r\nHost: a\r\n\r\n', 'GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'],
  [
    'HTTP/1.0 with keep-alive',
    'POST /1 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n',
    'GET /2 HTTP/1.0\r\nHost: a\r\n\r\n',
  ],
])('sees two requests where one connection has two in %s', async (_, first, second) => {
  const { send } = await startWitness()
  const { seen } = await send(first + second)
  expect(seen.map((request) => request.split(' ')[1])).toEqual(['/1', '/2'])
})

it.each([
  ['an invalid request', 'nonsense\r\n\r\n'],
  ['two framings', framed('Content-Length: 5\r\nTransfer-Encoding: chunked')],
  ['CONNECT', line('CONNECT a:80 HTTP/1.1')],
  ['an upgrade', 'GET /evil HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
])('survives when %s follows in a pipeline', async (_, follower) => {
  const { send } = await startWitness()
  const { received, seen } = await send(`GET /1 HTTP/1.1\r\nHost: a\r\n\r\n${follower}${EVIL}`)
  expect(received.match(/HTTP\/1\.1 200/g)?.length ?? 0).toBeLessThanOrEqual(1)
  expect(seen.filter((request) => request !== 'GET /1 a ')).toEqual([])
})

it('answers a hundred pipelined requests, and cuts a connection with more', async () => {
  const { send } = await startWitness()
  const gets = (count: number) => 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count)
  const last = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  expect((await send(gets(100) + last)).received.match(/HTTP\/1\.1 200/g)).toHaveLength(101)
  const { received, seen } = await send(gets(1_000) + last)
  expect(received).toBe('')
  expect(seen.length).toBeLessThanOrEqual(1)
})
