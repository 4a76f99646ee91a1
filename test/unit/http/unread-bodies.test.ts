import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import Koa from 'koa'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { answerBrokenRequests, lingerMs, unreadBodies } from '../../../server/src/http/connections.ts'
import { createServer, JoinedMessage } from '../../../server/src/platform/http.ts'

let cleanup = new AsyncDisposableStack()
afterEach(async () => {
  await cleanup.disposeAsync()
  cleanup = new AsyncDisposableStack()
  vi.useRealTimers()
})

/**
 * A client that has received its response in the middle of its body. The server reads at most the first bytes of the
 * body.
 */
async function answered({ reads }: { readonly reads: boolean }) {
  const koa = new Koa()
  koa.use(unreadBodies())
  koa.use(async (ctx) => {
    if (reads) {
      await once(ctx.req, 'data')
      ctx.req.pause()
    }
    ctx.body = 'ok'
  })
  const server = createServer({ IncomingMessage: JoinedMessage }, koa.callback())
  answerBrokenRequests(server)
  server.listen(0, '127.0.0.1')
  cleanup.defer(() => void server.close())
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
  cleanup.defer(() => void client.destroy())
  client.on('error', () => undefined)
  client.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n')
  const [[socket]] = await Promise.all([accepted, once(client, 'data')])
  cleanup.defer(() => void socket.destroy())
  client.resume()
  return { client, socket }
}

const tiny = (count: number) => '1\r\nx\r\n'.repeat(count)

describe.each([
  ['unread', { reads: false }],
  ['partly read', { reads: true }],
])('a client whose body is %s and that has its response', (_, how) => {
  it('is eventually cut off when it continues in tiny chunks', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { client, socket } = await answered(how)
    client.write(tiny(1_100))
    const isEnded = () => {
      client.write(tiny(1))
      return client.readableEnded
    }
    await expect.poll(isEnded).toBe(true)
    expect(socket.destroyed).toBe(false)
    vi.advanceTimersByTime(lingerMs)
    expect(socket.destroyed).toBe(true)
  })

  it('may send the rest, and then another request', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { client, socket } = await answered(how)
    client.write(`${tiny(180)}0\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx`)
    expect(String((await once(client, 'data'))[0])).toContain('200 OK')
    vi.advanceTimersByTime(lingerMs)
    expect(socket.destroyed).toBe(false)
  })
})
