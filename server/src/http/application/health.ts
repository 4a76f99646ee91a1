import type { Middleware } from 'koa'

/** Resolves to what is missing before requests can be served, or `undefined` when the server is ready. */
export type ReadinessCheck = () => Promise<string | undefined>

/** Answers `/healthz` (the process is alive) and `/readyz` (requests can be served). Both are open to everybody. */
export function healthChecks(readiness: ReadinessCheck): Middleware {
  return async (ctx, next) => {
    if (ctx.path === '/healthz') {
      ctx.body = { status: 'alive' }
    } else if (ctx.path === '/readyz') {
      const reason = await readiness()
      ctx.status = reason === undefined ? 200 : 503
      ctx.body = reason === undefined ? { status: 'ready' } : { status: 'not ready', reason }
    } else {
      await next()
    }
  }
}
