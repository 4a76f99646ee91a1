import type { IncomingMessage } from 'node:http'
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
  if (request.complete || request.destroyed) return
  const late = setTimeout(() => request.socket.destroy(), lingerMs)
  request.once('close', () => clearTimeout(late))
  request.resume()
}
