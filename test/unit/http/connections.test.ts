import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { limitConnections } from '../../../server/src/http/connections.ts'

const stacks: AsyncDisposableStack[] = []
afterEach(async () => {
  for (const stack of stacks.splice(0)) await stack.disposeAsync()
})

/** Starts a server with 12 connections that trusts the proxy at 127.0.0.9. */
async function limited(handle: RequestListener = (_, response) => void response.end('ok')) {
  const stack = new AsyncDisposableStack()
  stacks.push(stack)
  const server = createServer({ keepAliveTimeout: 60_000 }, handle)
  server.on('upgrade', (_, socket) => void socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n'))
  limitConnections(server, { most: 12, isTrustedProxy: (address) => address === '127.0.0.9' })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stack.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    async open(localAddress: string): Promise<Socket> {
      const accepted = once(server, 'connection')
      const socket = connect({ host: '127.0.0.1', port, localAddress })
      socket.on('error', () => undefined).resume()
      stack.defer(() => void socket.destroy())
      await Promise.all([once(socket, 'connect'), accepted])
      return socket
    },
  }
}

/** Sends a request and resolves to the status line, or to `undefined` when the connection is closed instead. */
async function ask(socket: Socket): Promise<string | undefined> {
  const answer = Promise.race([
    once(socket, 'data').then(([chunk]) => String(chunk).split('\r\n')[0]),
    once(socket, 'close').then(() => undefined),
  ])
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  return answer
}

const opened = async (count: number, open: () => Promise<Socket>) => {
  const sockets: Socket[] = []
  for (let i = 0; i < count; i++) sockets.push(await open())
  return sockets
}
const isOpen = (socket: Socket) => !socket.closed

describe('the connections of a server', () => {
  it('are limited to half of all per peer, and the peer’s oldest idle connection makes room for a new one', async () => {
    const { open } = await limited()
    const flood = await opened(10, () => open('127.0.0.2'))
    await expect.poll(() => flood.filter(isOpen)).toEqual(flood.slice(4))
    expect(await ask(await open('127.0.0.2'))).toBe('HTTP/1.1 200 OK')
    expect(await ask(await open('127.0.0.3'))).toBe('HTTP/1.1 200 OK')
  })

  it('are not closed while a request is under way', async () => {
    const answers: (() => void)[] = []
    const { open } = await limited((_, response) => void answers.push(() => response.end('late')))
    const busy = await opened(6, () => open('127.0.0.2'))
    const asked = busy.map(ask)
    await expect.poll(() => answers.length).toBe(6)
    // No connection of this peer can make room.
    await once(await open('127.0.0.2'), 'close')
    for (const answer of answers) answer()
    expect(await Promise.all(asked)).toEqual(Array(6).fill('HTTP/1.1 200 OK'))
    expect(busy.filter(isOpen)).toHaveLength(6)
    await open('127.0.0.2')
    await expect.poll(() => busy.filter(isOpen)).toEqual(busy.slice(1))
  })

  it('are not closed while they are connected to a command', async () => {
    const { open } = await limited()
    const busy = await opened(6, () => open('127.0.0.2'))
    for (const socket of busy) {
      const answer = once(socket, 'data')
      socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      expect(String((await answer)[0])).toContain('101')
    }
    await once(await open('127.0.0.2'), 'close')
    expect(busy.filter(isOpen)).toHaveLength(6)
  })

  it('make room for a new one when all others never send a complete request', async () => {
    let asked = 0
    const { open } = await limited((request, response) => {
      asked += 1
      if (request.method === 'GET') response.end('ok')
    })
    const flood = await opened(6, () => open('127.0.0.2'))
    for (const socket of flood) socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n')
    await expect.poll(() => asked).toBe(6)
    expect(await ask(await open('127.0.0.2'))).toBe('HTTP/1.1 200 OK')
    await expect.poll(() => flood.filter(isOpen)).toEqual(flood.slice(1))
  })

  it('may all come from a trusted proxy', async () => {
    const { open } = await limited()
    const proxied = await opened(12, () => open('127.0.0.9'))
    expect(await Promise.all(proxied.map(ask))).toEqual(Array(12).fill('HTTP/1.1 200 OK'))
  })

  it('are free for others again after they have ended', async () => {
    const { open } = await limited()
    const first = await opened(6, () => open('127.0.0.2'))
    await Promise.all(first.map(async (socket) => once(socket.destroy(), 'close')))
    const answered = async () => {
      const second = await opened(6, () => open('127.0.0.3'))
      return second.filter(isOpen).length
    }
    await expect.poll(answered).toBe(6)
  })
})
