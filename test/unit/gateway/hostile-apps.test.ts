import { once } from 'node:events'
import { connect } from 'node:net'
import { Writable } from 'node:stream'
import fc from 'fast-check'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import {
  ask,
  createScope,
  HOST,
  openOther,
  processDeath,
  rawClient,
  startApp,
  startGateway,
  startRawApp,
} from '../../harness/gateway/harness.ts'
import { IMPOSSIBLE, ODD } from './hostile-answers.ts'
import { type Reading, readAnswer } from './wire.ts'

const scope = createScope()
afterEach(() => scope.end())

const CLOSE = 'Host: a\r\nConnection: close\r\n'
const REQUESTS = {
  plain: { method: 'GET', upgrade: false, bytes: `GET / HTTP/1.1\r\n${CLOSE}\r\n` },
  head: { method: 'HEAD', upgrade: false, bytes: `HEAD / HTTP/1.1\r\n${CLOSE}\r\n` },
  body: { method: 'POST', upgrade: false, bytes: `POST / HTTP/1.1\r\n${CLOSE}Content-Length: 2\r\n\r\nhi` },
  old: { method: 'GET', upgrade: false, bytes: 'GET / HTTP/1.0\r\n\r\n' },
  upgrade: {
    method: 'GET',
    upgrade: true,
    bytes: 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
  },
} as const
type Kind = keyof typeof REQUESTS
const KINDS = Object.keys(REQUESTS) as Kind[]

/** A gateway before an app that sends the same bytes to every client, and hangs up. */
async function startHostile() {
  const died = processDeath(scope)
  let answer: readonly string[] = []
  const upstream = await startRawApp(scope, (socket) => {
    socket.once('data', async () => {
      socket.setNoDelay(true)
      for (const piece of answer) {
        if (!socket.write(piece, 'latin1')) await Promise.race([once(socket, 'drain'), once(socket, 'close')])
        await new Promise(setImmediate)
      }
      socket.end()
    })
  })
  const { gateway, port } = await startGateway(scope, { upstream })
  const other = await openOther(scope, gateway)
  return {
    /** Returns what a client receives when the app sends these bytes. Fails when the gateway does not survive. */
    async provoke(kind: Kind, pieces: readonly string[]): Promise<Reading> {
      answer = pieces
      const request = REQUESTS[kind]
      const client = await rawClient(scope, port)
      client.socket.write(request.bytes)
      const received = await Promise.race([client.closed(), died])
      const well = await Promise.race([ask(other), died])
      expect([well.status, well.body]).toEqual([200, 'well'])
      return readAnswer(received, request)
    },
  }
}

describe.each(KINDS)('with the request "%s", survives and answers 502 to an app that sends', (kind) => {
  it.each(IMPOSSIBLE)('%s', async (_, bytes) => {
    const { provoke } = await startHostile()
    expect(await provoke(kind, [bytes])).toMatchObject({ status: 502, whole: true })
  })
})

describe.each(KINDS)('with the request "%s", survives and gives a well-formed response or cuts it for', (kind) => {
  it.each(ODD)('%s', async (_, bytes) => {
    const { provoke } = await startHostile()
    await provoke(kind, [bytes])
    await provoke(kind, [...bytes.slice(0, 300)])
  })
})

it.each(['\x01', '\x7f', '\x1b[0m'])('passes a response with %j in its phrase on without the phrase', async (text) => {
  const { provoke } = await startHostile()
  const answer = `HTTP/1.1 201 a${text}\r\nContent-Length: 2\r\n\r\nok`
  expect(await provoke('plain', [answer])).toEqual({ interim: [], status: 201, whole: true, body: 'ok' })
})

const FIVE = 'Content-Length: 5\r\n\r\n'
describe.each<[name: string, kind: Kind, head: string, rest: string]>([
  ['the body of a response to HEAD', 'head', `HTTP/1.1 200 OK\r\n${FIVE}`, 'hello'],
  ['the body of an error to HEAD', 'head', `HTTP/1.1 404 Not Found\r\nConnection: close\r\n${FIVE}`, 'hello'],
  ['chunks to HEAD', 'head', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '5\r\nhello\r\n0\r\n\r\n'],
  ['a body with 204', 'plain', `HTTP/1.1 204 No Content\r\n${FIVE}`, 'hello'],
  ['no chunks with 204', 'plain', 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n', '0\r\n\r\n'],
  ['chunks with 204', 'body', 'HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n', '5\r\nhello\r\n0\r\n\r\n'],
  ['a body with 304', 'plain', `HTTP/1.1 304 Not Modified\r\n${FIVE}`, 'hello'],
  [
    'a response as the body of 304',
    'plain',
    `HTTP/1.1 304 x\r\n${FIVE}`,
    'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  ],
  ['more than the length', 'plain', `HTTP/1.1 200 OK\r\n${FIVE}hello`, ' world'],
  ['more than the length to an upload', 'body', `HTTP/1.1 200 OK\r\n${FIVE}hello`, ' world'],
  [
    'bytes behind the last chunk',
    'plain',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    'x',
  ],
])('delivers the whole response of an app that sends %s', (_, kind, head, rest) => {
  const status = Number(head.slice(9, 12))
  const body = head.includes('hello') ? 'hello' : ''

  it.each([
    ['with it', [head + rest]],
    ['after it', [head, rest]],
  ])('%s', async (_, pieces) => {
    const { provoke } = await startHostile()
    expect(await provoke(kind, pieces)).toEqual({ interim: [], status, whole: true, body })
  })
})

it.each([
  ['HEAD', '200 OK'],
  ['GET', '204 No Content'],
  ['GET', '304 Not Modified'],
])('does not reuse the connection of a response to %s with %s and a length', async (method, status) => {
  const closed = Promise.withResolvers<void>()
  const upstream = await startRawApp(scope, (socket) => {
    socket.on('data', (request) => {
      if (request.includes('/next')) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext')
      else socket.write(`HTTP/1.1 ${status}\r\n${FIVE}`)
    })
    socket.on('close', () => closed.resolve())
  })
  const { port } = await startGateway(scope, { upstream })
  expect((await ask(port, { method })).status).toBe(Number(status.slice(0, 3)))
  await closed.promise
  expect((await ask(port, { path: '/next' })).body).toBe('next')
})

it('retries a request when bytes of the previous response arrive in place of its response', async () => {
  let connections = 0
  const upstream = await startRawApp(scope, (socket) => {
    connections += 1
    const [answer, next] = connections === 1 ? ['first', 'rest of first'] : ['second', '']
    socket.on('data', (request) => {
      if (request.includes('/next') && connections === 1) socket.write(next)
      else socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`)
    })
  })
  const { port } = await startGateway(scope, { upstream })
  expect((await ask(port)).body).toBe('first')
  expect((await ask(port, { path: '/next' })).body).toBe('second')
})

it('survives an app that hangs up after any byte', async () => {
  const { provoke } = await startHostile()
  const answer =
    'HTTP/1.1 103 H\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: 1\r\n\r\n'
  for (let length = 0; length < answer.length; length += 1) {
    const reading = await provoke('plain', [answer.slice(0, length)])
    expect(reading.status === 502 || !reading.whole).toBe(true)
  }
  const whole = await provoke('plain', [answer])
  expect(whole).toEqual({ interim: [103], status: 200, whole: true, body: 'ok' })
})

it('survives any bytes that an app sends', async () => {
  const { provoke } = await startHostile()
  const garbled = fc
    .tuple(
      fc.constantFrom(...[...IMPOSSIBLE, ...ODD].map(([, bytes]) => bytes.slice(0, 400))),
      fc.array(
        fc.tuple(
          fc.nat(400),
          fc.nat(3),
          fc.string({ unit: fc.nat(255).map((code) => String.fromCharCode(code)), maxLength: 3 }),
        ),
        {
          maxLength: 4,
        },
      ),
    )
    .map(([bytes, edits]) =>
      edits.reduce(
        (text, [at, length, replacement]) => text.slice(0, at) + replacement + text.slice(at + length),
        bytes,
      ),
    )
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...KINDS), garbled, async (kind, bytes) => {
      await provoke(kind, [bytes])
    }),
    { numRuns: 300 },
  )
})

describe('interim responses:', () => {
  const HINT = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\n'

  it('passes twenty on', async () => {
    const { provoke } = await startHostile()
    const reading = await provoke('plain', [`${HINT.repeat(20)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`])
    expect(reading).toEqual({ interim: Array(20).fill(103), status: 200, whole: true, body: 'ok' })
  })

  it('reads no endless sequence from an app while the client does not read', async () => {
    const TOTAL = 128 * 1024 * 1024
    const hint = `HTTP/1.1 103 Early Hints\r\nLink: <${'a'.repeat(4096)}>\r\n\r\n`
    let written = 0
    const stopped = Promise.withResolvers<void>()
    const upstream = await startRawApp(scope, (socket) => {
      socket.on('close', () => stopped.resolve())
      socket.once('data', async () => {
        while (!socket.destroyed && written < TOTAL) {
          written += hint.length
          if (!socket.write(hint)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {})
        }
        stopped.resolve()
      })
    })
    const { port } = await startGateway(scope, { upstream })
    const client = connect({ host: HOST, port })
    scope.defer(() => client.destroy())
    client.on('error', () => {})
    client.pause()
    client.write(`GET / HTTP/1.1\r\n${CLOSE}\r\n`)
    await stopped.promise
    // The kernel buffers a few megabytes before it applies backpressure.
    expect(written).toBeLessThan(TOTAL / 4)
    let received = ''
    for await (const chunk of client) received += (chunk as Buffer).toString('latin1')
    const reading = readAnswer(received, REQUESTS.plain)
    expect(reading).toMatchObject({ status: 502, whole: true })
    expect(reading.interim.length).toBeLessThanOrEqual(20)
  })
})

describe('logs', () => {
  function capture() {
    const lines: string[] = []
    const sink = new Writable({
      write(chunk: Buffer, _, done) {
        lines.push(chunk.toString())
        done()
      },
    })
    return { lines, logger: pino({ level: 'trace' }, sink) }
  }

  it('the kind of a parse error, and nothing from the app', async () => {
    const { lines, logger } = capture()
    const upstream = await startRawApp(scope, (socket) => {
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nX: \0secret-of-a-visitor\r\n\r\n'))
    })
    const { port } = await startGateway(scope, { upstream, logger })
    expect((await ask(port)).status).toBe(502)
    const entries = lines.map((line) => JSON.parse(line))
    expect(entries).toMatchObject([{ fault: { code: 'HPE_INVALID_HEADER_TOKEN', message: expect.any(String) } }])
    expect(Object.keys(entries[0].fault)).toEqual(['code', 'message'])
    expect(lines.join()).not.toMatch(/rawPacket|secret|stack/)
  })

  it('an internal failure, which cuts one exchange and nothing else', async () => {
    const died = processDeath(scope)
    const { lines, logger } = capture()
    logger.warn = () => {
      throw new Error('a fault in a callback')
    }
    const upstream = await startRawApp(scope, (socket) => void socket.once('data', () => socket.end('nonsense')))
    const { gateway, port } = await startGateway(scope, { upstream, logger })
    const other = await openOther(scope, gateway)
    const client = await rawClient(scope, port)
    client.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    expect(await Promise.race([client.closed(), died])).toBe('')
    expect((await ask(other)).body).toBe('well')
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ fault: { message: 'a fault in a callback' } }])
    await gateway.route('app', null)
    await gateway.drain(upstream, { timeoutMs: 2 ** 30 })
  })

  it('a failure to begin an exchange, which cuts one connection and nothing else', async () => {
    const died = processDeath(scope)
    const { lines, logger } = capture()
    let failing = true
    const isTrustedProxy = () => {
      if (failing) throw new Error('no such proxy')
      return false
    }
    const app = await startApp(scope, (_, res) => res.end('ok'))
    const { port } = await startGateway(scope, { upstream: app.upstream, logger, isTrustedProxy })
    for (const { bytes } of Object.values(REQUESTS)) {
      const client = await rawClient(scope, port)
      client.socket.write(bytes)
      expect(await Promise.race([client.closed(), died])).toBe('')
    }
    expect(lines).toHaveLength(KINDS.length)
    failing = false
    expect((await ask(port)).body).toBe('ok')
  })
})
