import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { queryOf } from '../../../server/src/http/validation.ts'
import { createServer, JoinedMessage } from '../../../server/src/platform/machine/http.ts'

let cleanup = new AsyncDisposableStack()
afterEach(async () => {
  await cleanup.disposeAsync()
  cleanup = new AsyncDisposableStack()
})

/** Sends a chunked body whose chunks are written at once, and returns how it arrives; null for one that is cut. */
async function arrives(chunks: readonly string[]): Promise<{ pieces: number; text: string } | null> {
  const arrived = Promise.withResolvers<{ pieces: number; text: string } | null>()
  const server = createServer({ IncomingMessage: JoinedMessage }, (request, response) => {
    let [pieces, text] = [0, '']
    request.on('data', (piece: Buffer) => {
      pieces += 1
      text += piece.toString()
    })
    request.on('close', () => arrived.resolve(null))
    request.on('end', () => {
      arrived.resolve({ pieces, text })
      response.end()
    })
  })
  cleanup.defer(() => void server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  const client = connect(address.port, '127.0.0.1')
  cleanup.defer(() => void client.destroy())
  client.on('error', () => undefined)
  const body = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')
  client.write(`POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${body}0\r\n\r\n`)
  return arrived.promise
}

describe('a body', () => {
  it('in thousands of chunks arrives whole, in few pieces', async () => {
    const chunks = Array.from({ length: 4_000 }, (_, at) => String.fromCharCode(97 + (at % 26)))
    const found = await arrives(chunks)
    expect(found?.text).toBe(chunks.join(''))
    expect(found?.pieces).toBeLessThan(40)
  })

  it('of small and large chunks keeps their order', async () => {
    const chunks = Array.from({ length: 300 }, (_, at) => `${at},`.repeat(at % 7 === 0 ? 3_000 : 1))
    expect((await arrives(chunks))?.text).toBe(chunks.join(''))
  })

  it('of tens of thousands of chunks is cut when they are tiny, and no other', async () => {
    expect(await arrives(Array.from({ length: 20_000 }, () => 'x'))).toBeNull()
    expect((await arrives(Array.from({ length: 20_000 }, () => 'x'.repeat(64))))?.text).toHaveLength(20_000 * 64)
  })
})

it('a query has its parameters by name, with lists of repeated ones', () => {
  expect(queryOf({ querystring: '' })).toEqual({})
  expect(queryOf({ querystring: 'a=1&b=x+y%26&c&a=2&a=3&%zz=%' })).toEqual({
    a: ['1', '2', '3'],
    b: 'x y&',
    c: '',
    '%zz': '%',
  })
  const odd = queryOf({ querystring: '__proto__=x&constructor=y' })
  expect(Object.entries(odd)).toEqual([
    ['__proto__', 'x'],
    ['constructor', 'y'],
  ])
})
