import type { Middleware } from 'koa'
import { ApiError } from '../../contract/errors.ts'
import type { OperationsState } from '../operations/mount.ts'
import type { Principal } from '../principal.ts'
import { applyRateLimit, type CountRequest, countFailure, type FailureLimiter } from '../rate-limit.ts'

export interface KeyAccess {
  /** Resolves to the principal of an `Authorization` header, or to `undefined`. */
  readonly authenticate: (authorization: string) => Promise<Principal | undefined>
  /** Counts a request against the limit of the principal's account. */
  readonly countRequest: CountRequest
}

/** The answer to a request without a valid key. */
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
