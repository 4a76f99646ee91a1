import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Middleware } from 'koa'

/** How long a client may keep sending after its answer. A connection closed at once could lose the answer. */
export const lingerMs = 10_000

/**
 * Drains what is left of a request body after the answer was sent, for a limited time, so that clients that are still
 * sending get to read the answer.
 */
export function unreadBodies(): Middleware {
  return async (ctx, next) => {
    ctx.res.once('finish', () => drain(ctx.req))
    await next()
    // Keep the connection even if the client asked to close it: it is still sending.
    if (!ctx.req.complete) ctx.res.shouldKeepAlive = true
  }
}

function drain(request: IncomingMessage): void {
  const { socket } = request
  if (request.complete || socket.destroyed) return
  // Bytes behind a refused body are never read.
  if (request.destroyed) {
    endSlowly(socket)
    return
  }
  const late = setTimeout(() => socket.destroy(), lingerMs)
  // A body that is refused later closes its request, and its connection goes on.
  const stop = () => {
    clearTimeout(late)
    socket.off('close', stop)
  }
  request.once('end', stop)
  socket.once('close', stop)
  request.resume()
}

/** Ends a connection, whose client may keep sending for a limited time. */
export function endSlowly(socket: Duplex, lastText?: string): void {
  socket.end(lastText)
  const late = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(late))
}
