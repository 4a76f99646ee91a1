import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { watchClient } from '../../../server/src/features/runs/connections.ts'

const pingMs = 20_000

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

/** A client that answers no pings, and the server's end of its connection. */
async function silentClient() {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const { port } = server.address() as AddressInfo
  const client = new WebSocket(`ws://127.0.0.1:${port}`, { autoPong: false })
  const [[socket]] = (await Promise.all([accepted, once(client, 'open')])) as [[WebSocket], unknown]
  watchClient(socket)
  return {
    client,
    socket,
    async [Symbol.asyncDispose]() {
      client.on('error', () => undefined).terminate()
      await new Promise((closed) => server.close(closed))
    },
  }
}

it('a connection whose client does not answer is closed', async () => {
  await using given = await silentClient()
  vi.advanceTimersByTime(2 * pingMs)
  expect(given.socket.readyState).not.toBe(WebSocket.OPEN)
})

it('a connection that is not read, because its command does not read, is kept', async () => {
  await using given = await silentClient()
  given.socket.pause()
  vi.advanceTimersByTime(10 * pingMs)
  expect(given.socket.readyState).toBe(WebSocket.OPEN)
  given.socket.resume()
  vi.advanceTimersByTime(pingMs)
  expect(given.socket.readyState).toBe(WebSocket.OPEN)
  vi.advanceTimersByTime(2 * pingMs)
  expect(given.socket.readyState).not.toBe(WebSocket.OPEN)
})

it('a client that sends signs of life is kept, though it answers no pings', async () => {
  await using given = await silentClient()
  for (let round = 0; round < 5; round++) {
    const heard = once(given.socket, 'pong')
    given.client.pong()
    await heard
    vi.advanceTimersByTime(pingMs)
  }
  expect(given.socket.readyState).toBe(WebSocket.OPEN)
})
