import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'

interface Flood extends AsyncDisposable {
  /** The number of connections that the server has not closed. */
  open(): number
}

/** Opens connections from an address of this machine one after another, and sends `first` on each. */
async function flood(url: string, count: number, first: string, localAddress: string): Promise<Flood> {
  const { hostname, port } = new URL(url)
  const sockets: Socket[] = []
  for (let opened = 0; opened < count; opened++) {
    const socket = connect({ host: hostname, port: Number(port), localAddress })
    socket.on('error', () => undefined)
    // The server reads the end of a connection that it closes, so its own end appears here.
    socket.resume()
    sockets.push(socket)
    await once(socket, 'connect')
    if (first !== '') socket.write(first)
  }
  return {
    open: () => sockets.filter((socket) => !socket.closed).length,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}

const descriptors = 1_000
const answers = async (url: string) =>
  (await fetch(`${url}/healthz`, { headers: { connection: 'close' }, signal: AbortSignal.timeout(5_000) })).status

attacks({ descriptors }, (attack) => {
  for (const [id, kind, first] of [
    ['idle-connections', 'Idle connections', ''],
    ['slow-requests', 'Requests that never end', 'GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: '],
  ] as const) {
    attack(
      { id, topic: 'Limits', held: `${kind} leave the API to others, and to those with the same address` },
      async ({ server }) => {
        await using flooding = await flood(server.url, descriptors, first, '127.0.0.2')
        expect(await answers(server.url)).toBe(200)
        await using _ = await flood(server.url, descriptors, first, '127.0.0.1')
        expect(await answers(server.url)).toBe(200)
        expect(flooding.open()).toBeLessThan(descriptors / 2)
      },
    )
  }
})
