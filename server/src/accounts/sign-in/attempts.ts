import { ApiError } from '../../contract/errors.ts'
import { networkOf } from '../../http/client-address.ts'
import type { DashboardCall } from '../../http/dashboard/call.ts'
import { type AttemptLimiter, createAttemptLimiter } from '../../platform/attempts.ts'
import type { Database } from '../../platform/database.ts'
import { hashToken } from '../tokens.ts'
import type { Devices } from './devices.ts'

type AnyCall = Pick<DashboardCall<'session.create'>, 'request' | 'setRetryAfter'>

/** Takes a count back after a success. */
type GiveBack = () => Promise<void>

/**
 * Limits guesses. Attempts are counted before they are made, so that many concurrent ones cannot exceed a limit. All
 * functions throw `rate_limit_exceeded`.
 *
 * A browser in which the user has signed in before has attempts of its own, which nobody else can use up. The attempts of
 * all others are counted by user and address, and in larger numbers by address and by user. They are not counted by
 * account: that would tell strangers which users belong together.
 */
export interface Attempts {
  signIn(call: AnyCall, given: { readonly email: string; readonly device: string | undefined }): Promise<GiveBack>
  /** Counts an attempt of a signed-in user, apart from sign-ins, which others could use up. */
  changePassword(call: AnyCall, userId: string): Promise<GiveBack>
  /** Counts a wrong token of a setup link. A right one always works. */
  wrongLink(call: AnyCall): Promise<void>
  /** Counts an attempt of a signed-in user at the code of a device, which is short enough to be guessed. */
  deviceCode(call: AnyCall, userId: string): Promise<GiveBack>
}

const windowMs = 15 * 60_000

export function createAttempts(database: Database, devices: Pick<Devices, 'isKnown'>): Attempts {
  const limiter = (name: string, most: number) => createAttemptLimiter(database, { name, most, windowMs })
  const byDevice = limiter('sign-in by known browser', 10)
  const byUserAndAddress = limiter('sign-in by user and address', 10)
  const byAddress = limiter('sign-in by address', 100)
  const byUser = limiter('sign-in by user', 100)
  const byChange = limiter('password change by user', 10)
  const byCode = limiter('device code by user', 30)
  const byLink = limiter('setup link by address', 60)

  return {
    async signIn(call, { email, device }) {
      if (device !== undefined && (await devices.isKnown(email, device))) {
        return take(call, [[byDevice, `${hashToken(device).toString('base64url')} ${email}`]])
      }
      const address = networkOf(call.request.address)
      return take(call, [
        [byUserAndAddress, `${address} ${email}`],
        [byAddress, address],
        [byUser, email],
      ])
    },

    changePassword: (call, userId) => take(call, [[byChange, userId]]),

    async wrongLink(call) {
      await take(call, [[byLink, networkOf(call.request.address)]])
    },

    deviceCode: (call, userId) => take(call, [[byCode, userId]]),
  }
}

/** Counts one attempt by each limit, in order, until one is exceeded. */
async function take(call: AnyCall, counted: readonly (readonly [AttemptLimiter, string])[]): Promise<GiveBack> {
  for (const [limiter, key] of counted) {
    const retryAfter = await limiter.take(key)
    if (retryAfter === undefined) continue
    call.setRetryAfter(retryAfter)
    const message = `There were too many attempts. Try again in ${Math.ceil(retryAfter / 60)} min.`
    throw new ApiError('rate_limit_exceeded', message, { retry_after: retryAfter })
  }
  return async () => {
    for (const [limiter, key] of counted) await limiter.giveBack(key)
  }
}
