import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import {
  ask,
  createScope,
  HOST,
  rawClient,
  startApp,
  startGateway,
  startRawApp,
  textOf,
} from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(() => scope.end())

/** An app that records every request, and a gateway before it. */
async function startWitness() {
  const seen: string[] = []
  const app = await startApp(scope, async (req, res) => {
    seen.push(`${req.method} ${req.url} ${await textOf(req)}`)
    res.end('ok')
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  return { port, seen }
}

describe('refuses with 400, passes no second request on, and survives:', () => {
  it.each([
    [
      'two framings',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    [
      'two framings, chunked first',
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    [
      'two lengths',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 30\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    [
      'a signed length',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    [
      'a space before the colon',
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    [
      'a folded header',
      'POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    ['a bare line feed', 'POST / HTTP/1.1\nHost: a\nContent-Length: 0\n\nGET /evil HTTP/1.1\nHost: a\n\n'],
    [
      'chunked that is not last',
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n',
    ],
    ['no host', 'GET /evil HTTP/1.1\r\n\r\n'],
    ['two hosts', 'GET /evil HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'],
    ['a different target host', 'GET ftp://a/evil HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['no HTTP', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ])('%s', async (_, bytes) => {
    const { port, seen } = await startWitness()
    const client = await rawClient(scope, port)
    client.socket.write(bytes, 'latin1')
    await client.until('HTTP/1.1 400 ')
    client.socket.end()
    expect((await client.closed()).match(/HTTP\/1\.1 200/)).toBeNull()
    expect((await ask(port)).status).toBe(200)
    expect(seen).toEqual(['GET / '])
  })
})

it.each(['gzip, chunked', 'xchunked', 'identity'])('refuses the transfer coding %s', async (coding) => {
  const { port, seen } = await startWitness()
  const client = await rawClient(scope, port)
  client.socket.write(
    `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ${coding}\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n`,
  )
  expect(await client.closed()).toMatch(/^HTTP\/1\.1 (400|501) /)
  expect(seen).toEqual([])
})

it('refuses CONNECT', async () => {
  const { port, seen } = await startWitness()
  const client = await rawClient(scope, port)
  client.socket.write('CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(await client.closed()).toMatch(/^HTTP\/1\.1 405 /)
  expect(seen).toEqual([])
})

it('uses the length of the body, whatever Connection names', async () => {
  const { port, seen } = await startWitness()
  const client = await rawClient(scope, port)
  const inner = 'GET /evil HTTP/1.1\r\nHost: a\r\n\r\n'
  client.socket.write(
    `POST /1 HTTP/1.1\r\nHost: a\r\nConnection: Content-Length, Host\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
  )
  await client.until('ok')
  client.socket.write('GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await client.closed()
  expect(seen).toEqual([`POST /1 ${inner}`, 'GET /2 '])
})

it('does not pass on a body that breaks in the middle as complete', async () => {
  const ended = Promise.withResolvers<boolean>()
  const app = await startApp(scope, (req) => {
    req.resume().on('error', () => {})
    req.on('close', () => ended.resolve(req.complete))
  })
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const client = await rawClient(scope, port)
  client.socket.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n')
  await once(app.server, 'request')
  client.socket.write('zz\r\n')
  expect(await ended.promise).toBe(false)
  await client.closed()
})

it('passes a body with an upgrade on as a plain request', async () => {
  const { port, seen } = await startWitness()
  const client = await rawClient(scope, port)
  const inner = 'GET /evil HTTP/1.1\r\nHost: a\r\n\r\n'
  client.socket.write(
    `POST /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
  )
  await client.until('ok')
  expect(seen).toEqual([`POST /1 ${inner}`])
})

describe('answers 502 to a request whose app', () => {
  it.each([
    ['sends two framings', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['sends two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc'],
    ['applies an unknown transfer coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['speaks no HTTP', 'hello\r\n\r\n'],
    ['switches protocols unasked', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
    ['sends an endless head', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`],
  ])('%s', async (_, bytes) => {
    const upstream = await startRawApp(scope, (socket) => socket.once('data', () => socket.write(bytes)))
    const { port } = await startGateway(scope, { upstream })
    expect((await ask(port, { method: 'POST', body: 'x' })).status).toBe(502)
  })
})

it('discards an unrequested response instead of using it for the next request', async () => {
  let asked = 0
  const poisoned = Promise.withResolvers<void>()
  const upstream = await startRawApp(scope, (socket) => {
    socket.on('data', () => {
      asked += 1
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood`, () => {
        if (asked === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
      })
    })
    socket.on('close', () => poisoned.resolve())
  })
  const { port } = await startGateway(scope, { upstream })
  expect((await ask(port)).body).toBe('good')
  await poisoned.promise
  for (let i = 0; i < 5; i += 1) expect((await ask(port)).body).toBe('good')
})

it('cuts the response off when its chunks are invalid', async () => {
  let spoil = () => {}
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n'))
    spoil = () => socket.write('zz\r\n\r\n0\r\n\r\n')
  })
  const { port } = await startGateway(scope, { upstream })
  const outgoing = request({ host: HOST, port, agent: false }).end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  await once(incoming, 'data')
  const failed = once(incoming, 'error')
  spoil()
  await failed
  expect(incoming.complete).toBe(false)
})
