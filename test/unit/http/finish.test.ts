import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import { createRetirement } from '../../../server/src/http/retirement.ts'

type Listener = (request: IncomingMessage, response: ServerResponse) => void

/** A server with this listener, and its end. */
async function serverWith(listener: Listener) {
  const server = createServer({ requestTimeout: 0 })
  const retirement = createRetirement(server)
  server.on('request', listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const send = (method: string, path = '/') => request({ host: '127.0.0.1', port, path, method, agent: false })
  return { server, retirement, send }
}

const requestsMs = 100

describe('a stopping server', () => {
  it('cuts requests after their time, except transfers, and finishes an upload', async () => {
    const { server, retirement, send } = await serverWith((incoming, response) => {
      if (incoming.url === '/upload') void incoming.toArray().then((chunks) => response.end(String(chunks.length > 0)))
    })
    const upload = send('PUT', '/upload')
    upload.write('a')
    await once(server, 'request')
    const stuck = send('GET').end()
    await once(server, 'request')
    const finished = retirement.finish({ requestsMs, transfersMs: 60_000 })
    await expect(once(stuck, 'response')).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(server.listening).toBe(false)
    upload.end('b')
    const [answer] = (await once(upload, 'response')) as [IncomingMessage]
    expect(answer).toMatchObject({ statusCode: 200, headers: { connection: 'close' } })
    answer.resume()
    await finished
  })

  it('ends endless responses like other requests, and a transfer at the deadline', async () => {
    const { server, retirement, send } = await serverWith((incoming, response) => {
      if (incoming.url === '/follow') response.write('event')
      else response.setHeader('Content-Length', 1_000_000).write('a')
    })
    const follower = send('GET', '/follow').end()
    const [followed] = (await once(follower, 'response')) as [IncomingMessage]
    const download = send('GET', '/file').end()
    const [file] = (await once(download, 'response')) as [IncomingMessage]
    const finished = retirement.finish({ requestsMs, transfersMs: 60_000 })
    let fileEnded = false
    file.once('close', () => {
      fileEnded = true
    })
    await expect(followed.toArray()).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(fileEnded).toBe(false)
    const later = performance.now() + 60_000
    using _ = vi.spyOn(performance, 'now').mockReturnValue(later)
    await expect(file.toArray()).rejects.toMatchObject({ code: 'ECONNRESET' })
    await finished
    expect(server.listening).toBe(false)
  })
})
