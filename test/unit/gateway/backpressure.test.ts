import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, expect, it } from 'vitest'
import { createScope, HOST, startApp, startGateway, textOf } from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(() => scope.end())

const TOTAL = 64 * 1024 * 1024
/** The bytes of the body that kernels and one buffer on each side may hold. */
const HELD_AT_MOST = TOTAL / 2
const CHUNK = Buffer.alloc(64 * 1024, 'fairlead')
const HASH = createHash('sha256')
for (let sent = 0; sent < TOTAL; sent += CHUNK.length) HASH.update(CHUNK)
const EXPECTED = HASH.digest('hex')

/** Writes the whole body as fast as possible; `sent()` returns the number of bytes so far. */
function pour(sink: NodeJS.WritableStream): { sent(): number } {
  let sent = 0
  const more = () => {
    while (sent < TOTAL) {
      sent += CHUNK.length
      if (!sink.write(CHUNK)) {
        sink.once('drain', more)
        return
      }
    }
    sink.end()
  }
  more()
  return { sent: () => sent }
}

async function hashOf(source: AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of source) hash.update(chunk)
  return hash.digest('hex')
}

/** Resolves when the number has stopped changing. On a slow machine it may be too low, but never too high. */
async function settled(read: () => number): Promise<number> {
  let last = -1
  for (let still = 0; still < 10; ) {
    const now = read()
    still = now === last && now > 0 ? still + 1 : 0
    last = now
    await delay(20)
  }
  return last
}

it('takes from the app only as much of a large answer as the client reads', async () => {
  let poured: { sent(): number } | null = null
  const app = await startApp(scope, (_, res) => (poured = pour(res)))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const outgoing = request({ host: HOST, port, agent: false }).end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  expect(await settled(() => poured?.sent() ?? 0)).toBeLessThan(HELD_AT_MOST)
  expect(await hashOf(incoming)).toBe(EXPECTED)
})

it('takes from the client only as much of a large upload as the app reads', async () => {
  const arrived = Promise.withResolvers<[IncomingMessage, ServerResponse]>()
  const app = await startApp(scope, (req, res) => arrived.resolve([req, res]))
  const { port } = await startGateway(scope, { upstream: app.upstream })
  const outgoing = request({ host: HOST, port, method: 'PUT', headers: { 'Content-Length': TOTAL }, agent: false })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  const poured = pour(outgoing)
  const [req, res] = await arrived.promise
  expect(await settled(() => poured.sent())).toBeLessThan(HELD_AT_MOST)
  res.end(await hashOf(req))
  expect(await textOf((await answered)[0])).toBe(EXPECTED)
})
