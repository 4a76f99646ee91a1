import { createHash, timingSafeEqual } from 'node:crypto'
import type { Context } from 'koa'
import { ApiError, notFound } from '../../contract/errors.ts'
import type { Metrics } from '../../platform/metrics.ts'

/** Metrics, and the bearer token that opens them. */
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
