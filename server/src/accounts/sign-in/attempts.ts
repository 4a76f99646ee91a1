import { ApiError } from '../../contract/errors.ts'
import { networkOf } from '../../http/client-address.ts'
import type { DashboardCall } from '../../http/dashboard/call.ts'
import { createAttemptLimiter } from '../../platform/attempts.ts'
import type { Database } from '../../platform/database.ts'

/** Failed attempts in a quarter of an hour. */
const limits = { perAddress: 20, perUser: 10, windowMs: 15 * 60_000 }

/**
 * Counts an attempt before it is made, so that many concurrent ones cannot exceed the limit. Resolves to a function
 * that takes the count back after a success. Throws `rate_limit_exceeded`.
 */
export type CountAttempt = (
  call: Pick<DashboardCall<'session.create'>, 'request' | 'setRetryAfter'>,
  email?: string,
) => Promise<() => Promise<void>>

export function createAttemptCounter(database: Database): CountAttempt {
  const { perAddress, perUser, windowMs } = limits
  const byAddress = createAttemptLimiter(database, { name: 'sign-in by address', most: perAddress, windowMs })
  const byUser = createAttemptLimiter(database, { name: 'sign-in by user', most: perUser, windowMs })
  return async (call, email) => {
    const address = networkOf(call.request.address)
    const retryAfter = (await byAddress.take(address)) ?? (email === undefined ? undefined : await byUser.take(email))
    if (retryAfter !== undefined) {
      call.setRetryAfter(retryAfter)
      const message = `There were too many attempts. Try again in ${Math.ceil(retryAfter / 60)} min.`
      throw new ApiError('rate_limit_exceeded', message, { retry_after: retryAfter })
    }
    return async () => {
      await byAddress.giveBack(address)
      if (email !== undefined) await byUser.giveBack(email)
    }
  }
}
