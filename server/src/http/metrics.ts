import { createHash, timingSafeEqual } from 'node:crypto'
import type { Context } from 'koa'
import { ApiError, notFound } from '../contract/errors.ts'
import type { Metrics } from '../platform/metrics.ts'

/** Answers `/metrics` to whoever has the token (constant-time comparison); without a token there is no such page. */
export async function answerMetrics(ctx: Context, metrics: Metrics, token: string | undefined): Promise<void> {
  if (token === undefined) throw notFound()
  const given = /^Bearer +(\S+)$/i.exec(ctx.get('Authorization'))?.[1] ?? ''
  if (!timingSafeEqual(digest(given), digest(token))) {
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
