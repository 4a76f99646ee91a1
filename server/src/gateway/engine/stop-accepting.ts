import { Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** The time after which nothing waits any more at a Unix socket whose path names another one. */
const QUEUE_MS = 1_000

/**
 * Stops accepting connections, and leaves those that are open as they are. On a Unix socket whose path another process has taken,
 * waiting connections are accepted first: the system would reset them.
 */
export async function stopAccepting(acceptor: Server): Promise<void> {
  if (typeof acceptor.address() === 'string') await sleep(QUEUE_MS)
  // The method of HTTP servers would also close connections whose first request has not been read yet.
  if (acceptor.listening) Server.prototype.close.call(acceptor)
}
