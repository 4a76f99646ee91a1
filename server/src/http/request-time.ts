import type { IncomingMessage } from 'node:http'
import type { Middleware } from 'koa'

/** For the body of a request that is no upload. */
const bodyMs = 300_000
/** For the rest of a request that was answered before it was read: long enough to hear the answer. */
const restMs = 10_000

/**
 * Ends requests whose bodies take too long, as Node's own `requestTimeout` would, if it did not know uploads from
 * others: `ctx.state.takeTime()` lets a request take as long as it needs, under a deadline of its own.
 */
export function requestTime(): Middleware {
  return async (ctx, next) => {
    const timer = endUnlessRead(ctx.req, bodyMs)
    ctx.state['takeTime'] = () => clearTimeout(timer)
    ctx.res.once('finish', () => drain(ctx.req))
    await next()
    // Also a client that asked for it is not cut off while it sends: it might never see its answer.
    if (!ctx.req.complete) ctx.res.shouldKeepAlive = true
  }
}

/** Reads on for a while: closing the connection at once would take the answer from a client that still sends. */
function drain(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return
  endUnlessRead(request, restMs)
  request.resume()
}

function endUnlessRead(request: IncomingMessage, ms: number): NodeJS.Timeout {
  const timer = setTimeout(() => {
    if (!request.complete) request.socket.destroy()
  }, ms)
  request.once('close', () => clearTimeout(timer))
  return timer.unref()
}
