import type { IncomingMessage } from 'node:http'
import type { Middleware } from 'koa'

/** How long a client may go on sending after its answer: cut off at once, it might not see the answer. */
const lingerMs = 10_000

/** The rest of a body that was refused or not asked for is read away after the answer, but not for ever. */
export function unreadBodies(): Middleware {
  return async (ctx, next) => {
    ctx.res.once('finish', () => readAway(ctx.req))
    await next()
    // Also a client that asked for it is not cut off while it sends.
    if (!ctx.req.complete) ctx.res.shouldKeepAlive = true
  }
}

function readAway(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return
  const late = setTimeout(() => request.socket.destroy(), lingerMs)
  request.once('close', () => clearTimeout(late))
  request.resume()
}
