import { sql } from 'kysely'
import { ApiError } from '../../contract/errors.ts'
import type { Audit } from '../../http/call.ts'
import { networkOf } from '../../http/client-address.ts'
import type { DashboardCall, DashboardRequest, SignedIn } from '../../http/dashboard.ts'
import { type AttemptLimiter, createAttemptLimiter } from '../../platform/attempts.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { AccountsTables } from './tables.ts'
import { hashToken, newToken } from './tokens.ts'
import type { User } from './users.ts'

type AnyCall = Pick<DashboardCall<'session.create'>, 'request' | 'setRetryAfter'>

/** Undoes a count after a success. */
type GiveBack = () => Promise<void>

/**
 * Limits guesses. Attempts are counted before they are made, so that concurrent attempts cannot exceed a limit. All
 * functions throw `rate_limit_exceeded`.
 *
 * A browser in which the user has signed in before has a separate limit, which strangers cannot use up. Other attempts
 * are counted by user and address, and with higher limits by address and by user. They are not counted by account,
 * because that would tell strangers which users belong together.
 */
export interface Attempts {
  signIn(call: AnyCall, given: { readonly email: string; readonly device: string | undefined }): Promise<GiveBack>
  /** Counts an attempt of a signed-in user. Sign-ins count separately, because strangers could use up their limit. */
  changePassword(call: AnyCall, userId: string): Promise<GiveBack>
  /** Counts a wrong token of a setup link. A correct token always works. */
  wrongLink(call: AnyCall): Promise<void>
  /** Counts an attempt of a signed-in user to enter a device code, which is short enough to guess. */
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

/**
 * The browsers in which users have signed in. The page keeps a browser's token in the storage of its origin, because
 * apps on other ports of the host would receive a cookie and could use up the browser's attempts. The token gives no
 * access; it only decides which sign-in attempts are counted together.
 */
export interface Devices {
  isKnown(email: string, token: string): Promise<boolean>
  /** Records a sign-in. Returns the browser's token: a new one when the given token is unknown. */
  remember(transaction: Transaction, userId: string, token: string | undefined): Promise<string>
  /** Removes browsers in which nobody has signed in for a year. */
  forget(): Promise<void>
}

/** The most browsers of a user; the least recently used browsers are forgotten first. */
const mostDevices = 50

export function createDevices({ database }: { readonly database: Database }): Devices {
  const db = database.withTables<AccountsTables>()
  return {
    async isKnown(email, token) {
      const row = await db
        .selectFrom('devices')
        .innerJoin('users', 'users.id', 'devices.user_id')
        .select('user_id')
        .where('hash', '=', hashToken(token))
        .where('email', '=', email)
        .executeTakeFirst()
      return row !== undefined
    },

    async remember(transaction, userId, given) {
      const tables = transaction.withTables<AccountsTables>()
      const stored =
        given === undefined
          ? undefined
          : await tables
              .selectFrom('devices')
              .select('hash')
              .where('hash', '=', hashToken(given))
              .limit(1)
              .executeTakeFirst()
      // Somebody else may know a token that was not made here.
      const token = given !== undefined && stored !== undefined ? given : newToken()
      await tables
        .insertInto('devices')
        .values({ hash: hashToken(token), user_id: userId })
        .onConflict((conflict) => conflict.columns(['hash', 'user_id']).doUpdateSet({ last_used_at: sql<Date>`now()` }))
        .execute()
      const beyond = tables
        .selectFrom('devices')
        .select('hash')
        .where('user_id', '=', userId)
        .orderBy('last_used_at', 'desc')
        .offset(mostDevices)
      await tables.deleteFrom('devices').where('user_id', '=', userId).where('hash', 'in', beyond).execute()
      return token
    },

    async forget() {
      await db.deleteFrom('devices').where('last_used_at', '<', sql<Date>`now() - interval '1 year'`).execute()
    },
  }
}

/**
 * Records a failed attempt. An unknown e-mail address goes to the operator's account, without the typed text. Both
 * cases make the same write, so that timing does not reveal which users exist.
 */
export type RecordFailure = (
  request: DashboardRequest,
  operation: string,
  user: SessionUser | undefined,
) => Promise<void>

export function createFailureRecorder(dependencies: {
  readonly database: Database
  readonly record: RecordEntry
  readonly operatorId: string
}): RecordFailure {
  const { database, record, operatorId } = dependencies
  return async (request, operation, user) => {
    const entry = { operation, accountId: user?.accountId ?? operatorId, user }
    await database.transaction().execute((transaction) => record(transaction, request, entry))
  }
}

export type SessionUser = Pick<User, 'id' | 'email' | 'accountId'>

export interface Recorded {
  readonly operation: string
  readonly accountId: string
  /** `undefined` for a failed sign-in with an unknown e-mail address. */
  readonly user: Pick<User, 'id' | 'email'> | undefined
  readonly resourceId?: string
}

export type RecordEntry = (transaction: Transaction, request: DashboardRequest, entry: Recorded) => Promise<void>

export function createRecorder(audit: Audit): RecordEntry {
  return (transaction, request, { operation, accountId, user, resourceId }) =>
    audit(transaction, {
      accountId,
      actor: { type: 'user', id: user?.id ?? null, name: user?.email ?? null },
      address: request.address,
      requestId: request.id,
      operation,
      projectId: null,
      resourceId: resourceId ?? null,
    })
}

export function userOf({ principal }: SignedIn): SessionUser {
  return { id: principal.actor.id, email: principal.actor.name, accountId: principal.accountId }
}
