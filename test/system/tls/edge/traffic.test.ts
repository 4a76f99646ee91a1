import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dial, noCaddy, visit } from '../../../harness/edge.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { type Beside, beside, dashboardHost } from './beside.ts'

const why = await noCaddy()
if (why !== null) skipped('traffic through the edge', why)

const host = 'a.example.test'
const other = 'b.example.test'

/** Plain HTTP to the edge, with any head. */
async function plain(port: number, head: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  socket.write(head)
  return (await socket.toArray()).join('')
}

interface Told {
  readonly by: string
  readonly headers: Readonly<Record<string, string>>
}

describe.skipIf(why !== null)('the edge', () => {
  let edge: Beside
  /** Connections whose requests never have a complete head; they are closed after a while. */
  const neverDone: Promise<unknown>[] = []
  /** Running responses of the app, by path. */
  const open = new Map<string, [IncomingMessage, ServerResponse]>()

  const tell = (by: string) => (incoming: IncomingMessage, response: ServerResponse) => {
    if (incoming.url?.startsWith('/open')) {
      open.set(incoming.url, [incoming, response])
      return
    }
    if (incoming.url === '/hsts') response.setHeader('Strict-Transport-Security', 'max-age=5')
    response.end(JSON.stringify({ by, headers: incoming.headers }))
  }
  const opened = async (path: string) => {
    await expect.poll(() => open.get(path)).toBeDefined()
    return open.get(path) as [IncomingMessage, ServerResponse]
  }
  const told = async (given: Parameters<typeof visit>[0]) => JSON.parse((await visit(given)).text) as Told

  beforeAll(async () => {
    edge = await beside()
    await edge.gateway.start(tell('gateway'))
    await edge.api.start(tell('api'))
    await edge.certify(host, other)
    await edge.certify(dashboardHost)
    await edge.start({ trustedProxies: ['127.0.0.9'] })
    const head = `GET / HTTP/1.1\r\nHost: ${host}\r\nX-Never: `
    const secure = await dial({ host, port: edge.httpsPort })
    for (const socket of [secure, connect(edge.httpPort, '127.0.0.1'), connect(edge.httpsPort, '127.0.0.1')]) {
      // The last one has not even begun its handshake.
      if (neverDone.length < 2) socket.write(head)
      neverDone.push(
        once(
          socket.resume().on('error', () => undefined),
          'close',
        ),
      )
    }
  })

  afterAll(() => edge?.[Symbol.asyncDispose]())

  it.each(['h1', 'h2'] as const)('serves an app by %s, and the dashboard', async (protocol) => {
    const to = { host, port: edge.httpsPort, protocol }
    expect(await told({ ...to, path: '/x' })).toMatchObject({ by: 'gateway' })
    expect(await told({ ...to, host: dashboardHost })).toMatchObject({ by: 'api' })
  })

  it('redirects all visitors of HTTP to HTTPS', async () => {
    const answer = await plain(edge.httpPort, `POST /a/b?c=d HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1\.1 308 /)
    expect(answer).toContain(`\r\nLocation: https://${host}:${edge.httpsPort}/a/b?c=d\r\n`)
    expect(await plain(edge.httpPort, 'GET / HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.0 400 /)
  })

  it.each(['acme-challenge', 'fairlead'])('answers /.well-known/%s by plain HTTP for every host', async (folder) => {
    const head = `GET /.well-known/${folder}/token HTTP/1.1\r\nHost: unknown.example.org\r\nConnection: close\r\n\r\n`
    const answer = await plain(edge.httpPort, head)
    expect(answer).toMatch(/^HTTP\/1\.1 200 /)
    expect(answer).toContain('"host":"unknown.example.org"')
    expect(answer).toContain('"x-forwarded-proto":"http"')
  })

  it('gives no certificate for a name without one, and asks only the gateway', async () => {
    for (const unknown of ['unknown.example.test', 'a.b.example.test', 'localhost']) {
      await expect(dial({ host: unknown, port: edge.httpsPort })).rejects.toThrow(/alert internal error/)
      expect(edge.asked).toContain(unknown)
    }
    const log = await readFile(`${edge.dataDirectory}/edge/caddy/caddy.log`, 'utf8')
    expect(log).not.toMatch(/obtain|acme|unknown\.example/)
  })

  it('gives a client without a name no certificate', async () => {
    await expect(dial({ host: '', port: edge.httpsPort })).rejects.toThrow(/alert internal error/)
  })

  it.each(['h1', 'h2'] as const)(
    'answers each request for its named host, whatever the connection was made for: %s',
    async (protocol) => {
      for (const [servername, asked, by] of [
        [host, other, 'gateway'],
        [host, dashboardHost, 'api'],
        [dashboardHost, host, 'gateway'],
      ] as const) {
        const answer = await told({ host: asked, servername, port: edge.httpsPort, protocol })
        expect([answer.by, answer.headers['host']]).toEqual([by, `${asked}:${edge.httpsPort}`])
      }
    },
  )

  it('identifies the client itself, and trusts no client', async () => {
    const headers = {
      'X-Forwarded-For': '192.0.2.1',
      'X-Forwarded-Proto': 'http',
      'X-Forwarded-Host': 'evil.example.org',
    }
    for (const asked of [host, dashboardHost]) {
      const { headers: seen } = await told({ host: asked, port: edge.httpsPort, headers })
      expect(seen).toMatchObject({
        host: `${asked}:${edge.httpsPort}`,
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': `${asked}:${edge.httpsPort}`,
      })
    }
  })

  it('trusts the operator’s proxies, and adds their address', async () => {
    const socket = await dial({ host, port: edge.httpsPort }, { localAddress: '127.0.0.9' } as object)
    const headers = { Host: host, 'X-Forwarded-For': '192.0.2.1' }
    const sent = request({ headers, createConnection: () => socket }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    const seen = JSON.parse(String(Buffer.concat(await answer.toArray()))) as Told
    expect(seen.headers['x-forwarded-for']).toBe('192.0.2.1, 127.0.0.9')
    socket.destroy()
  })

  it.each(['h1', 'h2'] as const)('answers an overlong head with 431, for any destination: %s', async (protocol) => {
    for (const asked of [host, dashboardHost]) {
      const statusWith = async (bytes: number) => {
        const headers = { 'X-Long': 'x'.repeat(bytes) }
        return (await visit({ host: asked, port: edge.httpsPort, protocol, headers })).status
      }
      for (const [kilobytes, status] of [
        [14, 200],
        [18, 431],
        [20, 431],
        [60, 431],
      ] as const)
        expect([asked, kilobytes, await statusWith(kilobytes * 1_000)]).toEqual([asked, kilobytes, status])
    }
  })

  it('makes browsers return by HTTPS, unless the app sets another policy', async () => {
    const header = async (path: string) =>
      (await visit({ host, port: edge.httpsPort, path })).headers['strict-transport-security']
    expect(await header('/')).toBe('max-age=31536000')
    expect(await header('/hsts')).toBe('max-age=5')
  })

  it('passes on each part of a response as it comes, with and without a length', async () => {
    for (const [path, head] of [
      ['/open/events', { 'Content-Type': 'text/event-stream' }],
      ['/open/length', { 'Content-Length': '10' }],
      ['/open/chunks', {}],
    ] as const) {
      const socket = await dial({ host, port: edge.httpsPort })
      const sent = request({ path, headers: { Host: host }, createConnection: () => socket }).end()
      const [, response] = await opened(path)
      response.writeHead(200, head).write('first')
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      expect(String((await once(answer, 'data'))[0])).toBe('first')
      response.write('later')
      expect(String((await once(answer, 'data'))[0])).toBe('later')
      response.end()
      socket.destroy()
    }
  })

  it.each(['h1', 'h2'] as const)('passes on each part of a request as it comes: %s', async (protocol) => {
    const path = `/open/upload-${protocol}`
    const socket = await dial({ host, port: edge.httpsPort }, protocol === 'h2' ? { ALPNProtocols: ['h2'] } : {})
    const session =
      protocol === 'h2' ? connectHttp2(`https://${host}:${edge.httpsPort}`, { createConnection: () => socket }) : null
    const body =
      session?.request({ ':method': 'POST', ':path': path }) ??
      request({ method: 'POST', path, headers: { Host: host }, createConnection: () => socket })
    body.write('first')
    const [incoming, response] = await opened(path)
    expect(String((await once(incoming, 'data'))[0])).toBe('first')
    body.write('later')
    expect(String((await once(incoming, 'data'))[0])).toBe('later')
    body.end()
    response.end()
    await once(body, 'response')
    session?.destroy()
    socket.destroy()
  })

  it('ends a request whose client has left before the answer', async () => {
    const socket = await dial({ host, port: edge.httpsPort })
    request({ path: '/open/left', headers: { Host: host }, createConnection: () => socket })
      .on('error', () => {})
      .end()
    const [incoming] = await opened('/open/left')
    const closed = once(incoming.socket, 'close')
    socket.destroy()
    await closed
  })

  it('waits for a gateway or a server that restarts', async () => {
    for (const [name, part] of [
      [host, edge.gateway],
      [dashboardHost, edge.api],
    ] as const) {
      await part.stop()
      const to = { host: name, port: edge.httpsPort }
      const waiting = [visit(to), visit({ ...to, protocol: 'h2' }), visit({ ...to, method: 'DELETE' })]
      await sleep(500)
      await part.start(tell('the next one'))
      for (const { text } of await Promise.all(waiting)) expect(JSON.parse(text)).toMatchObject({ by: 'the next one' })
    }
  })

  it('repeats no sent request', async () => {
    const seen: string[] = []
    await edge.gateway.stop()
    await edge.gateway.start(({ method = '', socket }) => {
      seen.push(method)
      socket.destroy()
    })
    const to = { host, port: edge.httpsPort }
    for (const method of ['GET', 'POST']) expect(await visit({ ...to, method })).toMatchObject({ status: 502 })
    expect(seen).toEqual(['GET', 'POST'])
    await edge.gateway.stop()
    await edge.gateway.start(tell('gateway'))
  })

  it('offers HTTP/3', async () => {
    const { headers } = await visit({ host, port: edge.httpsPort })
    expect(headers['alt-svc']).toBe(`h3=":${edge.httpsPort}"; ma=2592000`)
    // An edge answers a packet of an unknown version with its own versions (RFC 9000, section 6.1).
    const packet = Buffer.alloc(1_200)
    packet.set([0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0])
    const socket = createSocket('udp4')
    socket.send(packet, edge.httpsPort, '127.0.0.1')
    const [answer] = (await once(socket, 'message')) as [Buffer]
    socket.close()
    expect([(answer[0] ?? 0) & 0x80, answer.readUInt32BE(1)]).toEqual([0x80, 0])
  })

  it('keeps the body of a change while it waits for the server', async () => {
    await edge.api.stop()
    const change = { host: dashboardHost, port: edge.httpsPort, method: 'PUT', body: 'x'.repeat(1_000_000) }
    const waiting = [visit(change), visit({ ...change, protocol: 'h2' })]
    await sleep(500)
    await edge.api.start(async (incoming, response) => {
      const { length } = Buffer.concat(await incoming.toArray())
      response.end(`${incoming.method} ${incoming.url} ${length}`)
    })
    for (const { text } of await Promise.all(waiting)) expect(text).toBe('PUT / 1000000')
    await edge.api.stop()
    await edge.api.start(tell('api'))
  })

  it('reports an unreachable address when no server comes back', async () => {
    await Promise.all([edge.gateway.stop(), edge.api.stop()])
    const to = { port: edge.httpsPort, path: '/v1/account' }
    const [app, api] = await Promise.all([visit({ ...to, host }), visit({ ...to, host: dashboardHost })])
    expect(app).toMatchObject({ status: 502, headers: { 'retry-after': '2', 'cache-control': 'no-store' } })
    expect(app.text).toBe('This address cannot be reached at the moment. Please try again soon.\n')
    expect(api).toMatchObject({ status: 502, headers: { 'retry-after': '2', 'content-type': 'application/json' } })
    expect(JSON.parse(api.text)).toMatchObject({ error: { code: 'server_error' } })
    await edge.gateway.start(tell('gateway'))
    await edge.api.start(tell('api'))
  })

  it('serves a large number of concurrent first visitors of one name', async () => {
    await edge.certify('new.example.test')
    const visits = await Promise.all(
      Array.from({ length: 50 }, () => visit({ host: 'new.example.test', port: edge.httpsPort })),
    )
    expect(new Set(visits.map(({ status }) => status))).toEqual(new Set([200]))
  })

  it('closes connections without a request', async () => {
    await Promise.all(neverDone)
  })

  it('answers questions about certificates only to itself', async () => {
    const { port, token } = JSON.parse(await readFile(`${edge.dataDirectory}/edge/questions.json`, 'utf8')) as {
      port: number
      token: string
    }
    const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`).then(({ status }) => status)
    expect(await ask(`/certificate?server_name=${host}`)).toBe(403)
    expect(await ask(`/${'0'.repeat(64)}/certificate?server_name=${host}`)).toBe(403)
    expect(await ask(`/${token}/ask?domain=${host}`)).toBe(403)
    expect(await ask(`/${token}/certificate?server_name=${host}`)).toBe(200)
  })
})
