import type { Middleware } from 'koa'
import { answerJson } from '../answer-json.ts'

/** Resolves to what is missing before requests can be served, or `undefined` when the server is ready. */
export type ReadinessCheck = () => Promise<string | undefined>

/** Returns what does not work while requests can be served, one sentence each. */
export type KnownProblems = () => readonly string[]

/** Answers `/healthz` (the process is alive) and `/readyz` (requests can be served). Both are open to everybody. */
export function healthChecks(readiness: ReadinessCheck, known: KnownProblems): Middleware {
  return async (ctx, next) => {
    if (ctx.path === '/healthz') {
      answerJson(ctx, { status: 'alive' })
    } else if (ctx.path === '/readyz') {
      const reason = await readiness()
      ctx.status = reason === undefined ? 200 : 503
      const problems = known()
      const details = problems.length === 0 ? {} : { problems }
      answerJson(
        ctx,
        reason === undefined ? { status: 'ready', ...details } : { status: 'not ready', reason, ...details },
      )
    } else {
      await next()
    }
  }
}
