import type { Socket } from 'node:net'

const TCP_KEEP_ALIVE_MS = 60_000

/**
 * Joins two connections whose protocol has been switched: bytes both ways, each side read only as fast as the other
 * takes them. The end of one direction is passed on; an error on one side destroys the other.
 */
export function openTunnel(client: Socket, upstream: Socket): void {
  for (const socket of [client, upstream]) {
    socket.setTimeout(0)
    socket.setNoDelay(true)
    socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS)
  }
  client.on('error', () => upstream.destroy())
  upstream.on('error', () => client.destroy())
  client.on('close', () => upstream.destroy())
  // Bytes that the app sent before it closed still reach the client.
  upstream.on('close', () => client.destroySoon())
  client.pipe(upstream)
  upstream.pipe(client)
}
