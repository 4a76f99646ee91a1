import type { DashboardResponse } from '../../contract/dashboard-operations.ts'
import { ApiError } from '../../contract/errors.ts'
import type { DashboardCall } from '../../http/dashboard/call.ts'
import type { Transaction } from '../../platform/database.ts'
import type { Accounts } from '../accounts.ts'
import type { NewSession, Sessions } from '../sessions.ts'
import type { Devices } from './devices.ts'
import type { RecordEntry, SessionUser } from './record.ts'

/** A session that has begun, with the token of the browser. */
export interface Begun extends NewSession {
  readonly device: string
}

/** Begins and describes sessions, for sign-in and for setup. */
export interface NewSessions {
  /** Begins a session in the transaction and records the operation that led to it. */
  begin(
    transaction: Transaction,
    call: Pick<DashboardCall<'session.create'>, 'previousSession' | 'request'> & {
      readonly body: { readonly device?: string | undefined }
    },
    user: SessionUser,
    operation: string,
  ): Promise<Begun>
  /** Sets the cookie and returns the answer. Throws `unauthorized` when the session or the account is gone. */
  answer(
    call: Pick<DashboardCall<'session.create'>, 'setToken'>,
    user: SessionUser,
    begun: Begun,
  ): Promise<DashboardResponse<'session.create'>>
  /** Throws `unauthorized` when the session or the account is gone. */
  describe(user: SessionUser, sessionId: string): Promise<DashboardResponse<'session.get'>>
}

export function createNewSessions(dependencies: {
  readonly accounts: Pick<Accounts, 'get'>
  readonly sessions: Pick<Sessions, 'begin' | 'list'>
  readonly devices: Pick<Devices, 'remember'>
  readonly record: RecordEntry
}): NewSessions {
  const { accounts, sessions, devices, record } = dependencies
  const describe: NewSessions['describe'] = async (user, sessionId) => {
    const [account, all] = await Promise.all([accounts.get(user.accountId), sessions.list(user.id)])
    const session = all.find(({ id }) => id === sessionId)
    if (account === undefined || session === undefined) throw new ApiError('unauthorized', 'Sign in again.')
    return {
      user: { id: user.id, email: user.email },
      account: { id: account.id, name: account.name, plan: account.plan },
      session: { id: session.id, created_at: session.created_at, expires_at: session.expires_at },
    }
  }
  return {
    async begin(transaction, { request, previousSession, body }, user, operation) {
      const { address, userAgent } = request
      const session = await sessions.begin(transaction, user.id, { address, userAgent, previous: previousSession })
      const device = await devices.remember(transaction, user.id, body.device)
      await record(transaction, request, { operation, accountId: user.accountId, user, resourceId: session.id })
      return { ...session, device }
    },

    async answer({ setToken }, user, { id, token, secret, device }) {
      const described = await describe(user, id)
      setToken(token)
      return { ...described, secret, device }
    },

    describe,
  }
}
