import { once } from 'node:events'
import { IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, it } from 'vitest'
import { answerBrokenRequests, oneByOne } from '../../../server/src/http/connections.ts'
import { createServer } from '../../../server/src/platform/http.ts'

let cleanup = new AsyncDisposableStack()
afterEach(async () => {
  await cleanup.disposeAsync()
  cleanup = new AsyncDisposableStack()
})

/** A server that answers with the path. */
async function pathServer() {
  const found = { made: 0, inOneTurn: 0 }
  class CountedMessage extends IncomingMessage {
    constructor(socket: ConstructorParameters<typeof IncomingMessage>[0]) {
      super(socket)
      found.made += 1
    }
  }
  let thisTurn = 0
  const server = createServer(
    { IncomingMessage: CountedMessage },
    oneByOne((request, response) => {
      if (thisTurn === 0) setImmediate(() => (thisTurn = 0))
      thisTurn += 1
      found.inOneTurn = Math.max(found.inOneTurn, thisTurn)
      response.end(request.url)
    }),
  )
  answerBrokenRequests(server)
  server.listen(0, '127.0.0.1')
  cleanup.defer(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  /** Sends this, and resolves to all received data. */
  const send = async (bytes: string) => {
    const client = connect(port, '127.0.0.1')
    client.write(bytes)
    return text(client)
  }
  return { found, send }
}

const gets = (count: number) =>
  Array.from({ length: count }, (_, at) => `GET /${at} HTTP/1.1\r\nHost: a\r\n\r\n`).join('')
const last = 'GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
const paths = (received: string) => received.match(/\/\w+(?=HTTP|$)/g)

describe('pipelined requests', () => {
  it('are answered in order, one per turn', async () => {
    const { found, send } = await pathServer()
    const received = await send(gets(90) + last)
    expect(paths(received)).toEqual([...Array.from({ length: 90 }, (_, at) => `/${at}`), '/last'])
    expect(found.inOneTurn).toBe(1)
  })

  it('are refused beyond a hundred, which are answered', async () => {
    const { found, send } = await pathServer()
    const received = await send(gets(1_000) + last)
    expect(received.match(/HTTP\/1.1 200/g)).toHaveLength(101)
    expect(received).toMatch(/\/100HTTP\/1.1 400 .*"Too many requests wait for their answers on this connection\."/s)
    expect(found.made).toBe(102)
  })

  it('do not affect other connections of the server', async () => {
    const { send } = await pathServer()
    await send(gets(1_000) + last)
    expect(paths(await send(gets(2) + last))).toEqual(['/0', '/1', '/last'])
  })
})
