import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type EdgeGateway, from, startEdge } from '../../harness/gateway/edge.ts'
import { ask, createScope, rawClient, startApp, textOf } from '../../harness/gateway/harness.ts'
import { openTunnel } from '../../harness/gateway/program.ts'

const scope = createScope()
afterAll(() => scope.end())

/**
 * The main process accepts the connections, and passes every second one to the other process, so the test does
 * everything several times.
 */
const workers = 2
let at: EdgeGateway
beforeAll(async () => {
  at = await startEdge(scope, { workers })
  const app = await startApp(scope, async (req, res) => {
    if (req.url === '/events') {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.write('data: first\n\n')
      return
    }
    if (req.url === '/echo') {
      res.writeHead(200)
      req.on('data', (chunk) => res.write(chunk)).on('end', () => res.end())
      return
    }
    let size = 0
    for await (const chunk of req) size += (chunk as Buffer).length
    res.end(String(size))
  })
  await at.gateway.open('streams', { hostname: 'streams.example' })
  await at.gateway.route('streams', app.upstream)
})

/** A request on a separate connection, whose head is being sent. */
function begin(path: string, method = 'GET'): { sent: ClientRequest; answered: Promise<[IncomingMessage]> } {
  const sent = request({ socketPath: at.edge, path, method, agent: false, headers: from('streams.example') })
  scope.defer(() => sent.destroy())
  sent.on('error', () => {})
  return { sent, answered: once(sent, 'response') as Promise<[IncomingMessage]> }
}

const each = Array.from({ length: 2 * workers }, (_, index) => index)

it('WebSockets pass', async () => {
  const tunnels = await Promise.all(each.map(() => openTunnel(scope, at.edge, from('a.example'))))
  for (const [index, tunnel] of tunnels.entries()) expect(await tunnel.say(`${index}`)).toBe(`hi ${index}`)
})

it('events arrive one by one, during the response', async () => {
  for (const _ of each) {
    const { sent, answered } = begin('/events')
    sent.end()
    const [answer] = await answered
    const [event] = await once(answer, 'data')
    expect(String(event)).toBe('data: first\n\n')
    sent.destroy()
  }
})

it('bytes pass in both directions at the same time', async () => {
  for (const _ of each) {
    const { sent, answered } = begin('/echo', 'POST')
    sent.write('one ')
    const [answer] = await answered
    expect(String((await once(answer, 'data'))[0])).toBe('one ')
    sent.write('two ')
    expect(String((await once(answer, 'data'))[0])).toBe('two ')
    sent.end('three')
    expect(await textOf(answer)).toBe('three')
  }
})

it('large bodies pass, with a length and without', { timeout: 300_000 }, async () => {
  const chunk = Buffer.alloc(1024 * 1024, 'x')
  const count = 256
  for (const headers of [{}, { 'Content-Length': String(chunk.length * count) }]) {
    const sent = request({
      socketPath: at.edge,
      method: 'PUT',
      agent: false,
      headers: from('streams.example', headers as Record<string, string>),
    })
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>
    for (let index = 0; index < count; index += 1) if (!sent.write(chunk)) await once(sent, 'drain')
    sent.end()
    const [answer] = await answered
    expect(await textOf(answer)).toBe(String(chunk.length * count))
  }
})

it('a client that sends its head slowly gets its response', async () => {
  for (const _ of each) {
    const client = await rawClient(scope, at.edge)
    for (const part of ['GET / HT', 'TP/1.1\r\nHo', 'st: a.exam', 'ple\r\nConnection: close\r\n', '\r\n']) {
      client.socket.write(part)
      // The parts travel one by one when a turn of another connection answered each.
      await ask(at.edge, { headers: from('a.example') })
    }
    expect(await client.closed()).toMatch(/200 OK[\s\S]*hi$/)
  }
})

it('a client that disconnects ends its request at the app', async () => {
  const gone = Promise.withResolvers<void>()
  const app = await startApp(scope, (req) => void req.on('close', gone.resolve))
  await at.gateway.open('held', { hostname: 'held.example' })
  await at.gateway.route('held', app.upstream)
  const client = await rawClient(scope, at.edge)
  const arrived = once(app.server, 'request')
  client.socket.write('GET / HTTP/1.1\r\nHost: held.example\r\n\r\n')
  await arrived
  client.socket.destroy()
  await gone.promise
})
