import { randomUUID } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { Logger } from 'pino'
import { ApiError } from '../../contract/errors.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { answerJson } from '../answer-json.ts'

const requestIdForm = /^[\w\-=]{1,255}$/

/** Takes the client's `X-Request-Id` if it is well-formed, else makes one. The answer and the log carry it. */
export function requestId(): Middleware {
  return async (ctx, next) => {
    const given = ctx.get('X-Request-Id')
    ctx.state['requestId'] = requestIdForm.test(given) ? given : randomUUID()
    ctx.set('X-Request-Id', ctx.state['requestId'])
    await next()
  }
}

/** Writes one log line for each answered request and adds its duration to the metrics. */
export function accessLog(logger: Logger, metrics: Metrics | null): Middleware {
  return async (ctx, next) => {
    const start = performance.now()
    await next()
    const ms = performance.now() - start
    const operation = ctx.state['operation'] as string | undefined
    metrics?.observeRequest({ operation: operation ?? 'none', status: ctx.status, seconds: ms / 1000 })
    logger.info(
      { ...facts(ctx), operation, status: ctx.status, ms: Math.round(ms), actor: ctx.state['principal']?.actor.id },
      'request',
    )
  }
}

/** The facts of a request that are logged. Queries and paths outside the API are left out: they may hold secrets. */
function facts(ctx: Context): Readonly<Record<string, unknown>> {
  const path = /^\/(v1|dashboard\/api)\//.test(ctx.path)
    ? ctx.path.slice(0, 300)
    : (/^\/(files\/file_\w{26}|\w{0,20})/.exec(ctx.path)?.[0] ?? '')
  return { request_id: ctx.state['requestId'], method: ctx.method, path, address: ctx.state['address'] }
}

/** Answers every thrown error with the specification's error body. Errors other than `ApiError` are only logged. */
export function errorAnswers(logger: Logger): Middleware {
  return async (ctx, next) => {
    try {
      await next()
      if (ctx.status === 404 && ctx.body === undefined) {
        throw new ApiError('not_found', 'There is no such operation; /docs lists all operations.')
      }
    } catch (error) {
      answerWith(ctx, error instanceof ApiError ? error : internalError(ctx, error, logger))
    }
  }
}

function internalError(ctx: Context, error: unknown, logger: Logger): ApiError {
  logger.error({ err: error, ...facts(ctx) }, 'request failed')
  return new ApiError(
    'server_error',
    'Something went wrong on the server. Its log has the details under this request id.',
  )
}

function answerWith(ctx: Context, error: ApiError): void {
  ctx.status = error.status
  if (error.code === 'unauthorized') ctx.set('WWW-Authenticate', 'Bearer')
  answerJson(ctx, error.toBody())
}
