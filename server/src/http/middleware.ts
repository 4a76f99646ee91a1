import { createHash, randomUUID, timingSafeEqual } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { Logger } from 'pino'
import { ApiError, notFound } from '../contract/errors.ts'
import type { Metrics } from '../platform/metrics.ts'
import { answerJson } from './bodies.ts'
import { type IsTrustedProxy, isSecure } from './client-address.ts'

const requestIdForm = /^[\w\-=]{1,255}$/

/** Takes a well-formed `X-Request-Id` of the client, or makes one, for the answer and the log. */
export function requestId(): Middleware {
  return async (ctx, next) => {
    const given = ctx.get('X-Request-Id')
    ctx.state['requestId'] = requestIdForm.test(given) ? given : randomUUID()
    ctx.set('X-Request-Id', ctx.state['requestId'])
    await next()
  }
}

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

/** Queries, and paths outside the API, are not logged: they may hold secrets. */
function facts(ctx: Context): Readonly<Record<string, unknown>> {
  const path = /^\/(v1|dashboard\/api)\//.test(ctx.path)
    ? ctx.path.slice(0, 300)
    : (/^\/(files\/file_\w{26}|\w{0,20})/.exec(ctx.path)?.[0] ?? '')
  return { request_id: ctx.state['requestId'], method: ctx.method, path, address: ctx.state['address'] }
}

/** Answers with the error body of the specification. Errors other than `ApiError` only appear in the log. */
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

/**
 * Headers of every answer. By default, an answer is not a page, cannot be embedded by other sites, and is not cached.
 */
export const apiHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
} as const

/** One year. Browsers ignore the header over HTTP, so it is sent over HTTPS only (RFC 6797 §8.1). */
const strictTransport = 'max-age=31536000'

/** Runs first, so that middleware for pages can replace headers. */
export function securityHeaders(isTrustedProxy: IsTrustedProxy): Middleware {
  return async (ctx, next) => {
    ctx.set(apiHeaders)
    if (isSecure(ctx.req, isTrustedProxy)) ctx.set('Strict-Transport-Security', strictTransport)
    await next()
  }
}

/** Resolves to `undefined` when the server is ready, otherwise to the reason. */
export type ReadinessCheck = () => Promise<string | undefined>

/** One sentence for each problem of a server that still works. */
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

export interface ProtectedMetrics extends Metrics {
  readonly token: string
}

/** Answers `/metrics` to a request with the token, compared in constant time; 404 when no token is configured. */
export async function answerMetrics(ctx: Context, metrics: ProtectedMetrics | null): Promise<void> {
  if (metrics === null) throw notFound()
  const given = /^Bearer +(\S+)$/i.exec(ctx.get('Authorization'))?.[1] ?? ''
  if (!timingSafeEqual(digest(given), digest(metrics.token))) {
    throw new ApiError(
      'unauthorized',
      'The metrics token is missing or not valid. Send it as Authorization: Bearer <token>.',
    )
  }
  ctx.body = await metrics.text()
  ctx.set('Content-Type', metrics.type)
}

function digest(value: string): Buffer {
  return createHash('sha256').update(value).digest()
}
