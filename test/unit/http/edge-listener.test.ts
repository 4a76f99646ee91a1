import { once } from 'node:events'
import { stat, unlink } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { clientAddress, clientHost, isSecure } from '../../../server/src/http/client-address.ts'
import { limitConnections } from '../../../server/src/http/connections.ts'
import { createEdgeListener } from '../../../server/src/http/edge-listener.ts'
import { createRetirement } from '../../../server/src/http/retirement.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

type Listener = (request: IncomingMessage, response: ServerResponse) => void
type To = { readonly socketPath: string } | { readonly port: number }

/** A server of the API, on a port and on a socket for the edge. */
async function api(path: string, listener: Listener, most = 100) {
  const server = createServer(listener)
  limitConnections(server, { most, isTrustedProxy: () => false })
  const edge = createEdgeListener(server)
  const retirement = createRetirement(server, edge)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  await edge.listen(path, null)
  const { port } = server.address() as AddressInfo
  const stop = () => retirement.finish({ requestsMs: 60_000, transfersMs: 60_000 })
  return { server, edge, retirement, port, stop }
}

async function ask(to: To, headers: Record<string, string> = {}): Promise<string> {
  const sent = request({ ...to, path: '/', headers, agent: false }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return String(Buffer.concat(await answer.toArray()))
}

const describeClient: Listener = (incoming, response) => {
  const nobody = () => false
  const told = [clientAddress(incoming, nobody), isSecure(incoming, nobody), clientHost(incoming, nobody)]
  response.end(JSON.stringify(told))
}

describe('the socket of the API for the edge', () => {
  it('trusts only the edge’s information about clients', async () => {
    await using folder = await temporaryDirectory()
    const socketPath = join(folder.path, 'api.sock')
    const { port, stop } = await api(socketPath, describeClient)
    const said = {
      Host: 'a.test',
      'X-Forwarded-For': '192.0.2.7',
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-Host': 'b.test',
    }
    expect(JSON.parse(await ask({ socketPath }, said))).toEqual(['192.0.2.7', true, 'b.test'])
    expect(JSON.parse(await ask({ port }, said))).toEqual(['127.0.0.1', false, 'a.test'])
    // The edge has added the last one.
    const several = { Host: 'a.test', 'X-Forwarded-For': '198.51.100.1, 192.0.2.8' }
    expect(JSON.parse(await ask({ socketPath }, several))).toEqual(['192.0.2.8', false, 'a.test'])
    await stop()
  })

  it('lets only the edge connect', async () => {
    await using folder = await temporaryDirectory()
    const socketPath = join(folder.path, 'api.sock')
    const { edge, stop } = await api(socketPath, describeClient)
    expect((await stat(socketPath)).mode & 0o777).toBe(0o600)
    const group = process.getgid?.() ?? 0
    await edge.listen(join(folder.path, 'other.sock'), group)
    expect(await stat(join(folder.path, 'other.sock'))).toMatchObject({ gid: group })
    expect((await stat(join(folder.path, 'other.sock'))).mode & 0o777).toBe(0o660)
    await stop()
  })

  it('counts the connections of each client of the edge separately', async () => {
    await using folder = await temporaryDirectory()
    const socketPath = join(folder.path, 'api.sock')
    const waiting: ServerResponse[] = []
    const { stop } = await api(socketPath, (_, response) => void waiting.push(response), 12)
    const by = (address: string, count: number) =>
      Array.from({ length: count }, () => ask({ socketPath }, { Host: 'a.test', 'X-Forwarded-For': address }))
    // One client gets half, for any address of its network; the others continue.
    const flood = by('2001:db8::1', 6)
    await expect.poll(() => waiting.length).toBe(6)
    await expect(by('2001:db8::2', 1)[0]).rejects.toMatchObject({ code: 'ECONNRESET' })
    const others = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].flatMap((address) => by(address, 1))
    await expect.poll(() => waiting.length).toBeGreaterThanOrEqual(9)
    for (const response of waiting) response.end('answered')
    expect(new Set(await Promise.all([...flood, ...others]))).toEqual(new Set(['answered']))
    await stop()
  })

  it('is taken over by the next server without a failing request', async () => {
    await using folder = await temporaryDirectory()
    const socketPath = join(folder.path, 'api.sock')
    const answering =
      (name: string): Listener =>
      (_, response) =>
        void setTimeout(() => response.end(name), 5)
    const first = await api(socketPath, answering('first'))
    const told: string[] = []
    let isOver = false
    const loops = Array.from({ length: 8 }, async () => {
      while (!isOver) told.push(await ask({ socketPath }))
    })
    await expect.poll(() => told.length).toBeGreaterThan(20)
    const retired = first.retirement.retire(10_000)
    const second = await api(socketPath, answering('second'))
    await retired
    const before = told.length
    await expect.poll(() => told.length).toBeGreaterThan(before + 20)
    isOver = true
    await Promise.all(loops)
    expect(new Set(told)).toEqual(new Set(['first', 'second']))
    expect(told.at(-1)).toBe('second')
    await second.stop()
  })

  it('accepts all waiting connections before the old socket closes, however busy the server is', async () => {
    await using folder = await temporaryDirectory()
    const socketPath = join(folder.path, 'api.sock')
    const first = await api(socketPath, (_, response) => void response.end('first'))
    // Node accepts one connection in each turn of the event loop, so the queue needs a second and a half.
    first.server.on('connection', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50))
    const asked = Array.from({ length: 30 }, () => ask({ socketPath }))
    const second = await api(socketPath, (_, response) => void response.end('second'))
    await first.retirement.retire(10_000)
    expect(await Promise.all(asked)).toEqual(Array(30).fill('first'))
    await second.stop()
  })

  it('finishes a request, and refuses further requests, when its server stops', async () => {
    await using folder = await temporaryDirectory()
    const socketPath = join(folder.path, 'api.sock')
    const waiting: ServerResponse[] = []
    const { stop } = await api(socketPath, (_, response) => void waiting.push(response))
    const asked = ask({ socketPath })
    await expect.poll(() => waiting.length).toBe(1)
    let hasStopped = false
    const stopped = stop().then(() => {
      hasStopped = true
    })
    await expect(ask({ socketPath })).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    expect(hasStopped).toBe(false)
    waiting[0]?.end('answered')
    expect(await asked).toBe('answered')
    await stopped
  })

  it('listens again when somebody has removed the socket', async () => {
    await using folder = await temporaryDirectory()
    const socketPath = join(folder.path, 'api.sock')
    const { edge, stop } = await api(socketPath, (_, response) => void response.end('answered'))
    const { ino } = await stat(socketPath)
    await edge.listen(socketPath, null)
    expect((await stat(socketPath)).ino).toBe(ino)
    await unlink(socketPath)
    await edge.listen(socketPath, null)
    expect(await ask({ socketPath })).toBe('answered')
    await stop()
  })
})
