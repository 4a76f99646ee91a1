import type { Context } from 'koa'
import { ApiError } from '../contract/errors.ts'
import type { AttemptLimiter } from '../platform/attempts.ts'
import { networkOf } from './client-address.ts'

/** Where a request stands in its account's window. */
export interface RateLimit {
  readonly limit: number
  /** How many more the window takes. */
  readonly remaining: number
  /** When it ends, in Unix seconds. */
  readonly reset: number
  /** Whole seconds until then, if this request is one too many. */
  readonly retryAfter: number | undefined
}

/** Puts the specification's headers ("Limits") on the answer; throws `rate_limit_exceeded` on a request too many. */
export function applyRateLimit(ctx: Context, { limit, remaining, reset, retryAfter }: RateLimit): void {
  ctx.set({
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(reset),
  })
  if (retryAfter === undefined) return
  throw tooMany(ctx, retryAfter, `This account has used its ${limit} requests of the hour.`)
}

/** Counts a failed attempt against its address; throws `rate_limit_exceeded` when there were too many. */
export function countFailure(ctx: Context, failures: AttemptLimiter, address: string): void {
  const retryAfter = failures.take(networkOf(address))
  if (retryAfter === undefined) return
  throw tooMany(ctx, retryAfter, 'Too many requests without a valid API key came from this address.')
}

function tooMany(ctx: Context, retryAfter: number, message: string): ApiError {
  ctx.set('Retry-After', String(retryAfter))
  return new ApiError('rate_limit_exceeded', `${message} Try again in ${retryAfter} s.`, { retry_after: retryAfter })
}
