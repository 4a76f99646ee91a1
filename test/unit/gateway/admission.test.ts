import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { createListener } from '../../../server/src/gateway/routing/listener.ts'
import { createGates } from '../../../server/src/platform/gates.ts'
import { ask, createScope, HOST, silent } from '../../harness/gateway/harness.ts'
import { freePort } from '../../harness/ports.ts'

const scope = createScope()
afterEach(() => scope.end())

it('reserves descriptors for other apps when one app’s clients open as many connections as they can', async () => {
  const newGate = createGates(12)
  const listening = async () => {
    const listener = createListener({ log: silent, gate: newGate(), handle: (_, res) => void res.end('ok') })
    const port = await freePort()
    await listener.listen({ host: HOST, port })
    scope.defer(() => listener.close(async () => undefined))
    return port
  }
  const [flooded, other] = [await listening(), await listening()]
  let open = 0
  const clients = Array.from({ length: 20 }, () => {
    const socket = connect(flooded, HOST)
    open += 1
    socket
      .on('error', () => undefined)
      .on('close', () => {
        open -= 1
      })
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ')
    scope.defer(async () => void socket.destroy())
    return socket
  })
  await expect.poll(() => open).toBe(6)
  await expect(ask(flooded)).rejects.toThrow()
  expect((await ask(other)).body).toBe('ok')
  const held = clients.filter((socket) => !socket.destroyed)
  const closed = held.map((socket) => once(socket, 'close'))
  for (const socket of held) socket.destroy()
  await Promise.all(closed)
  await expect
    .poll(() =>
      ask(flooded).then(
        ({ body }) => body,
        () => null,
      ),
    )
    .toBe('ok')
})
