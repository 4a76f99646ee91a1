import { randomUUID } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { Logger } from 'pino'
import { ApiError } from '../contract/errors.ts'

const requestIdForm = /^[\w\-=]{1,255}$/

/** Takes the caller's `X-Request-Id` if it is well-formed, else makes one; it is on the answer and in the log. */
export function requestId(): Middleware {
  return async (ctx, next) => {
    const given = ctx.get('X-Request-Id')
    ctx.state['requestId'] = requestIdForm.test(given) ? given : randomUUID()
    ctx.set('X-Request-Id', ctx.state['requestId'])
    await next()
  }
}

/** One line for each answered request. */
export function accessLog(logger: Logger): Middleware {
  return async (ctx, next) => {
    const start = performance.now()
    await next()
    logger.info(
      {
        request_id: ctx.state['requestId'],
        method: ctx.method,
        path: loggedPath(ctx),
        status: ctx.status,
        ms: Math.round(performance.now() - start),
        actor: ctx.state['principal']?.actor.id,
      },
      'request',
    )
  }
}

/** A file's address is the right to read it: its last part stays out of the log. */
function loggedPath({ path }: Context): string {
  return path.replace(/^(\/files\/[^/]+\/).+/, '$1***')
}

/** Turns everything that is thrown into the specification's error body; what is not an `ApiError` stays in the log. */
export function errorAnswers(logger: Logger): Middleware {
  return async (ctx, next) => {
    try {
      await next()
      if (ctx.status === 404 && ctx.body === undefined) {
        throw new ApiError('not_found', `There is no ${ctx.method} ${ctx.path}.`)
      }
    } catch (error) {
      answerWith(ctx, error instanceof ApiError ? error : internalError(ctx, error, logger))
    }
  }
}

function internalError(ctx: Context, error: unknown, logger: Logger): ApiError {
  logger.error(
    { err: error, request_id: ctx.state['requestId'], method: ctx.method, path: loggedPath(ctx) },
    'request failed',
  )
  return new ApiError(
    'server_error',
    'Something went wrong on the server. Its log has the details under this request id.',
  )
}

function answerWith(ctx: Context, error: ApiError): void {
  ctx.status = error.status
  if (error.code === 'unauthorized') ctx.set('WWW-Authenticate', 'Bearer')
  ctx.body = error.toBody()
}
