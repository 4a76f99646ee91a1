import type { Context } from 'koa'
import { ApiError } from '../contract/errors.ts'
import type { AttemptLimiter } from '../platform/attempts.ts'
import { networkOf } from './client-address.ts'

/** The state of an account's rate limit window after a request was counted. */
export interface RateLimit {
  readonly limit: number
  /** How many more requests the window allows. */
  readonly remaining: number
  /** The end of the window in Unix seconds. */
  readonly reset: number
  /** Whole seconds until the end, if this request exceeds the limit. */
  readonly retryAfter: number | undefined
}

/** Sets the rate limit headers of the specification ("Limits"). Throws `rate_limit_exceeded` when the limit is exceeded. */
export function applyRateLimit(ctx: Context, { limit, remaining, reset, retryAfter }: RateLimit): void {
  ctx.set({
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(reset),
  })
  if (retryAfter === undefined) return
  throw tooManyRequests(ctx, retryAfter, `This account has used its ${limit} requests of this hour.`)
}

/** Counts a failed authentication against the client's network. Throws `rate_limit_exceeded` when there were too many. */
export function countFailure(ctx: Context, failures: AttemptLimiter, address: string): void {
  const retryAfter = failures.take(networkOf(address))
  if (retryAfter === undefined) return
  throw tooManyRequests(ctx, retryAfter, 'Too many requests without a valid API key came from this address.')
}

function tooManyRequests(ctx: Context, retryAfter: number, message: string): ApiError {
  ctx.set('Retry-After', String(retryAfter))
  return new ApiError('rate_limit_exceeded', `${message} Try again in ${retryAfter} s.`, { retry_after: retryAfter })
}
