import type { Socket } from 'node:net'
import { readLastBytes } from '../../platform/machine/last-bytes.ts'

const TCP_KEEP_ALIVE_MS = 60_000
/** How long a client may be silent after the app has ended its half: nothing tells whether the app still reads. */
const SILENCE_MS = 10_000

/**
 * Joins two connections whose protocol has been switched: bytes both ways, each side read only as fast as the other
 * takes them. The end of one direction is passed on, and the other direction goes on; an error on one side destroys the other.
 *
 * @param upstream a connection that may be half open, and whose last bytes are read after a failed write
 */
export function openTunnel(client: Socket, upstream: Socket): void {
  for (const socket of [client, upstream]) {
    socket.setTimeout(0)
    socket.setNoDelay(true)
    socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS)
  }
  readLastBytes(client)
  client.on('error', () => upstream.destroy())
  upstream.on('error', () => client.destroy())
  // Bytes that one side sent before it closed still reach the other.
  client.on('close', () => {
    if (client.readableEnded && client.writableFinished) upstream.destroySoon()
    else upstream.destroy()
  })
  upstream.on('close', () => client.destroySoon())
  upstream.on('end', () => {
    const silence = setTimeout(() => client.destroy(), SILENCE_MS)
    client.on('data', () => silence.refresh())
    client.on('close', () => clearTimeout(silence))
  })
  client.pipe(upstream)
  upstream.pipe(client)
}
