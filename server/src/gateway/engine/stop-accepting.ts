import { Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** After this time nothing waits any more at a Unix socket whose path is that of another one. */
const QUEUE_MS = 1_000

/**
 * Stops accepting connections, of which others are left open. At a Unix socket, whose path another process has taken, what
 * waits is accepted before: the system would reset it.
 */
export async function stopAccepting(acceptor: Server): Promise<void> {
  if (typeof acceptor.address() === 'string') await sleep(QUEUE_MS)
  // The method of HTTP servers would also close connections whose first request has not been read yet.
  if (acceptor.listening) Server.prototype.close.call(acceptor)
}
