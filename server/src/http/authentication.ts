import type { Context, Middleware } from 'koa'
import { ApiError } from '../contract/errors.ts'
import { type AttemptLimiter, createAttemptLimiter, rememberRefusals } from '../platform/attempts.ts'
import type { Database } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import { networkOf } from './client-address.ts'
import type { OperationsState } from './operations.ts'
import type { Principal } from './principal.ts'

export interface KeyAccess {
  /** Resolves to the principal of an `Authorization` header, or to `undefined` for a key that is not valid. */
  readonly authenticate: (authorization: string) => Promise<Principal | undefined>
  readonly countRequest: CountRequest
}

export function unknownKey(): ApiError {
  return new ApiError('unauthorized', 'The API key is missing or not valid. Send it as Authorization: Bearer <key>.')
}

/** `/v1`: authenticates the API key and counts the request, then calls `operations`. */
export function versionOne(
  access: KeyAccess,
  failures: FailureLimiter,
  operations: Middleware,
): Middleware<OperationsState> {
  return async (ctx, next) => {
    const authenticate = () => access.authenticate(ctx.get('Authorization'))
    const principal = await authenticate()
    if (principal === undefined) {
      await countFailure(ctx, failures, ctx.state.address)
      throw unknownKey()
    }
    Object.assign(ctx.state, { principal, authenticateAgain: authenticate })
    applyRateLimit(ctx, await access.countRequest(principal.accountId, principal.requestsPerHour), 'API')
    await operations(ctx, next)
  }
}

export interface RateLimit {
  readonly limit: number
  readonly remaining: number
  /** The end of the window in Unix seconds. */
  readonly reset: number
  /** Whole seconds until the window ends; undefined unless this request exceeds the limit. */
  readonly retryAfter: number | undefined
}

export type CountRequest = (accountId: string, requestsPerHour: number) => Promise<RateLimit>

const failuresAMinute = { name: 'api key', most: 60, windowMs: 60_000 }

export type FailureLimiter = Pick<AttemptLimiter, 'take'>

/**
 * Limits failed authentications. Without the database, nothing is counted and nothing refused: a wrong key gets the
 * right answer anyway.
 */
export function createFailureLimiter(database: Database, logger: Logger): FailureLimiter {
  const { take } = rememberRefusals(createAttemptLimiter(database, failuresAMinute))
  return {
    take: (key) =>
      take(key).catch((error: unknown) => {
        logger.warn({ err: error }, 'a failed authentication could not be counted')
        return undefined
      }),
  }
}

/**
 * Sets the rate limit headers of the specification ("Limits"). Throws `rate_limit_exceeded` when the limit is exceeded.
 *
 * @param part says whose requests were counted, for the message
 */
export function applyRateLimit(
  ctx: Context,
  { limit, remaining, reset, retryAfter }: RateLimit,
  part: 'API' | 'dashboard',
): void {
  ctx.set({
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(reset),
  })
  if (retryAfter === undefined) return
  throw tooManyRequests(
    ctx,
    retryAfter,
    part === 'API'
      ? `This account has used its ${limit} requests of this hour.`
      : `The dashboard has used the ${limit} requests of this hour that this account has for it.`,
  )
}

/** Counts a failure of the client's network. Throws `rate_limit_exceeded` after too many. */
export async function countFailure(ctx: Context, failures: FailureLimiter, address: string): Promise<void> {
  const retryAfter = await failures.take(networkOf(address))
  if (retryAfter === undefined) return
  throw tooManyRequests(ctx, retryAfter, 'Too many requests without a valid API key or token came from this address.')
}

function tooManyRequests(ctx: Context, retryAfter: number, message: string): ApiError {
  ctx.set('Retry-After', String(retryAfter))
  return new ApiError('rate_limit_exceeded', `${message} Try again in ${retryAfter} s.`, { retry_after: retryAfter })
}
