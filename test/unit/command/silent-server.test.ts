import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { PassThrough } from 'node:stream'
import { afterEach, expect, it, vi } from 'vitest'
import { WebSocketServer } from 'ws'
import { connectRun } from '../../../server/src/commands/client/run.ts'

afterEach(() => void vi.useRealTimers())

const silenceMs = 60_000
const streams = () => ({ input: new PassThrough(), output: new PassThrough(), errors: new PassThrough() })

/** A server of runs that never pings, with the command's end of the connection. */
async function silentServer() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const { port } = server.address() as AddressInfo
  const run = connectRun(`ws://127.0.0.1:${port}`, 'ticket', streams())
  const ended = run.ended.catch((error: Error) => error.message)
  const [socket] = await accepted
  return {
    socket,
    ended,
    async [Symbol.asyncDispose]() {
      run.close()
      await new Promise((closed) => server.close(closed))
    },
  }
}

it('a command beside an app ends when its server stops responding', async () => {
  await using given = await silentServer()
  vi.advanceTimersByTime(silenceMs)
  expect(await given.ended).toContain('the connection to the server was lost')
})

it('a command beside an app continues while its server pings', async () => {
  await using given = await silentServer()
  for (let round = 0; round < 5; round++) {
    const answered = once(given.socket, 'pong')
    given.socket.ping()
    await answered
    vi.advanceTimersByTime(silenceMs / 2)
  }
  given.socket.send(JSON.stringify({ type: 'exit', code: 0, signal: null, problem: null }))
  expect(await given.ended).toMatchObject({ code: 0 })
})

it('a command beside an app gives up on a connection that never opens', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const server = createServer((socket) => void socket.on('error', () => undefined)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const { ended } = connectRun(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, 'ticket', streams())
  const refused = expect(ended).rejects.toThrow('the connection to the server was lost')
  const [socket] = await accepted
  vi.advanceTimersByTime(silenceMs)
  await refused
  socket.destroy()
  server.close()
})
