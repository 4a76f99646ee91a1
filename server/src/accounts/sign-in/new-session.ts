import type { DashboardResponse } from '../../contract/dashboard-operations.ts'
import { ApiError } from '../../contract/errors.ts'
import type { DashboardCall } from '../../http/dashboard/call.ts'
import type { Transaction } from '../../platform/database.ts'
import type { Accounts } from '../accounts.ts'
import type { Sessions } from '../sessions.ts'
import type { RecordEntry, SessionUser } from './record.ts'

/** Begins and describes sessions, for sign-in and for setup. */
export interface NewSessions {
  /** Begins a session in the transaction and records the operation that led to it. */
  begin(
    transaction: Transaction,
    call: Pick<DashboardCall<'session.create'>, 'token' | 'request'>,
    user: SessionUser,
    operation: string,
  ): Promise<{ readonly id: string; readonly token: string }>
  /** Throws `unauthorized` when the session or the account is gone. */
  describe(user: SessionUser, sessionId: string): Promise<DashboardResponse<'session.get'>>
}

export function createNewSessions(dependencies: {
  readonly accounts: Pick<Accounts, 'get'>
  readonly sessions: Pick<Sessions, 'begin' | 'list'>
  readonly record: RecordEntry
}): NewSessions {
  const { accounts, sessions, record } = dependencies
  return {
    async begin(transaction, { request, token }, user, operation) {
      const { address, userAgent } = request
      const session = await sessions.begin(transaction, user.id, { address, userAgent, token })
      await record(transaction, request, { operation, accountId: user.accountId, user, resourceId: session.id })
      return session
    },

    async describe(user, sessionId) {
      const [account, all] = await Promise.all([accounts.get(user.accountId), sessions.list(user.id)])
      const session = all.find(({ id }) => id === sessionId)
      if (account === undefined || session === undefined) throw new ApiError('unauthorized', 'Sign in again.')
      return {
        user: { id: user.id, email: user.email },
        account: { id: account.id, name: account.name, plan: account.plan },
        session: { id: session.id, created_at: session.created_at, expires_at: session.expires_at },
      }
    },
  }
}
