import { afterEach, expect, it, vi } from 'vitest'
import { ask, createScope, startGateway, startRawApp } from '../../harness/gateway/harness.ts'

const scope = createScope()
afterEach(async () => {
  vi.restoreAllMocks()
  await scope.end()
})

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const BODY_END = /\r\n\r\n(?:hi)?$/

/**
 * An app that answers `requests` requests on each connection, and closes the connection at the next request.
 * `connections.open` is the number of open connections.
 */
async function startClosing(requests: number) {
  const connections = { made: 0, open: 0 }
  const upstream = await startRawApp(scope, (socket) => {
    connections.made += 1
    connections.open += 1
    socket.on('close', () => (connections.open -= 1))
    let [received, answered] = ['', 0]
    socket.on('data', (bytes) => {
      received += bytes
      if (!BODY_END.test(received)) return
      received = ''
      answered += 1
      if (answered > requests) socket.destroy()
      else socket.write(OK)
    })
  })
  const { port } = await startGateway(scope, { upstream })
  return { connections, port }
}

/** Stops the gateway's clock. Returns a function that advances it. */
function stopClock(): (ms: number) => void {
  let now = performance.now()
  vi.spyOn(performance, 'now').mockImplementation(() => now)
  return (ms) => (now += ms)
}

it.each([
  ['POST', undefined],
  ['POST', 'hi'],
  ['PATCH', undefined],
  ['PUT', 'hi'],
  ['DELETE', 'hi'],
])('sends %s with body %j over no connection that the app may be closing', async (method, body) => {
  const { connections, port } = await startClosing(1)
  const pass = stopClock()
  for (let request = 1; request <= 5; request += 1) {
    pass(100)
    const headers = body === undefined ? {} : { 'Content-Length': '2' }
    expect((await ask(port, { method, headers, ...(body !== undefined && { body }) })).status).toBe(200)
    expect(connections.made).toBe(request)
    // The new connection replaces the old one.
    await expect.poll(() => connections.open).toBe(1)
  }
})

it('sends consecutive requests over one connection, whatever their method', async () => {
  const { connections, port } = await startClosing(Number.POSITIVE_INFINITY)
  const pass = stopClock()
  for (const method of ['POST', 'GET', 'PATCH', 'PUT', 'POST']) {
    pass(99)
    expect((await ask(port, { method })).status).toBe(200)
  }
  expect(connections.made).toBe(1)
})

it('sends a repeatable request over an older connection, and again when that connection is closed', async () => {
  const { connections, port } = await startClosing(2)
  const pass = stopClock()
  for (const made of [1, 1, 2, 2, 3]) {
    pass(1_000)
    expect([(await ask(port, { method: 'DELETE' })).status, connections.made]).toEqual([200, made])
  }
})
