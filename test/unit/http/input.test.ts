import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { queryOf } from '../../../server/src/http/validation.ts'
import { createServer, discardAll, isPaused, JoinedMessage } from '../../../server/src/platform/http.ts'

let cleanup = new AsyncDisposableStack()
afterEach(async () => {
  await cleanup.disposeAsync()
  cleanup = new AsyncDisposableStack()
})

/**
 * Sends a chunked body in several writes, and returns the received pieces, or the error. Each write waits until the
 * previous write has arrived; then `between` is called.
 */
async function arrives(
  writes: readonly (readonly string[])[],
  between = () => {},
  message = JoinedMessage,
): Promise<{ pieces: number; text: string } | string> {
  const arrived = Promise.withResolvers<{ pieces: number; text: string } | string>()
  let awaited = 0
  let next = Promise.withResolvers<void>()
  const server = createServer({ IncomingMessage: message }, (request, response) => {
    let [pieces, text] = [0, '']
    request.on('data', (piece: Buffer) => {
      pieces += 1
      text += piece.toString()
      if (text.length >= awaited) next.resolve()
    })
    request.on('error', (error) => arrived.resolve(error.message))
    request.on('end', () => {
      arrived.resolve({ pieces, text })
      response.end()
    })
  })
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (isPaused(error)) discardAll(socket)
  })
  cleanup.defer(() => void server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  const client = connect(address.port, '127.0.0.1')
  cleanup.defer(() => void client.destroy())
  client.on('error', () => undefined)
  client.write('POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n')
  for (const chunks of writes) {
    next = Promise.withResolvers()
    awaited += chunks.join('').length
    client.write(chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join(''))
    if (writes.length === 1) break
    await Promise.race([next.promise, arrived.promise])
    between()
  }
  client.write('0\r\n\r\n')
  return arrived.promise
}

const tooMany = 'comes in too many small chunks; send larger ones'

describe('a body', () => {
  it('in many one-byte chunks arrives complete, in few pieces', async () => {
    const chunks = Array.from({ length: 180 }, (_, at) => String.fromCharCode(97 + (at % 26)))
    const found = await arrives([chunks])
    expect(found).toMatchObject({ text: chunks.join('') })
    expect(Object(found).pieces).toBeLessThan(40)
  })

  it('of small and large chunks keeps their order', async () => {
    const chunks = Array.from({ length: 200 }, (_, at) => `${at},`.repeat(at % 7 === 0 ? 3_000 : 1))
    expect(await arrives([chunks])).toMatchObject({ text: chunks.join('') })
  })

  it('of thousands of concurrent chunks is refused only when the chunks are tiny', async () => {
    expect(await arrives([Array.from({ length: 20_000 }, () => 'x')])).toBe(tooMany)
    const text = 'x'.repeat(64)
    expect(await arrives([Array.from({ length: 20_000 }, () => text)])).toMatchObject({ text: text.repeat(20_000) })
  })

  it('that is refused costs nothing for chunks that arrive with the first excess chunk', async () => {
    let pushed = 0
    class CountedMessage extends JoinedMessage {
      override push(piece: Buffer | null): boolean {
        pushed += 1
        return super.push(piece)
      }
    }
    expect(await arrives([Array.from({ length: 5_000 }, () => 'x')], undefined, CountedMessage)).toBe(tooMany)
    // Node handles all received data in one turn.
    await nextTurn()
    expect(pushed).toBeLessThan(1_000)
  })

  it('of another connection arrives complete after a refusal', async () => {
    expect(await arrives([Array.from({ length: 5_000 }, () => 'x')])).toBe(tooMany)
    await cleanup.disposeAsync()
    cleanup = new AsyncDisposableStack()
    expect(await arrives([['one ', 'two']])).toMatchObject({ text: 'one two' })
  })

  it('of thousands of tiny chunks arrives complete when they come slowly', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    cleanup.defer(() => void vi.useRealTimers())
    const writes = Array.from({ length: 10 }, () => Array.from({ length: 180 }, () => 'x'))
    expect(await arrives(writes, () => vi.advanceTimersByTime(1_000))).toMatchObject({ text: 'x'.repeat(1_800) })
  })
})

it('a query has its parameters by name, and lists for repeated parameters', () => {
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
