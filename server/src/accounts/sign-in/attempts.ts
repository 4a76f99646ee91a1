import { ApiError } from '../../contract/errors.ts'
import { networkOf } from '../../http/client-address.ts'
import type { DashboardCall } from '../../http/dashboard/call.ts'
import { createAttemptLimiter } from '../../platform/attempts.ts'

/** Failed attempts in a quarter of an hour. */
const limits = { perAddress: 20, perUser: 10, windowMs: 15 * 60_000 }

/**
 * Counts an attempt before it is made, so that many concurrent ones cannot exceed the limit. Returns a function that
 * takes the count back after a success. Throws `rate_limit_exceeded`.
 */
export type CountAttempt = (
  call: Pick<DashboardCall<'session.create'>, 'request' | 'setRetryAfter'>,
  email?: string,
) => () => void

export function createAttemptCounter(): CountAttempt {
  const byAddress = createAttemptLimiter({ most: limits.perAddress, windowMs: limits.windowMs })
  const byUser = createAttemptLimiter({ most: limits.perUser, windowMs: limits.windowMs })
  return (call, email) => {
    const address = networkOf(call.request.address)
    const retryAfter = byAddress.take(address) ?? (email === undefined ? undefined : byUser.take(email))
    if (retryAfter !== undefined) {
      call.setRetryAfter(retryAfter)
      const message = `There were too many attempts. Try again in ${Math.ceil(retryAfter / 60)} min.`
      throw new ApiError('rate_limit_exceeded', message, { retry_after: retryAfter })
    }
    return () => {
      byAddress.giveBack(address)
      if (email !== undefined) byUser.giveBack(email)
    }
  }
}
