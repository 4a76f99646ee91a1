import { ApiError, notFound } from '../../contract/errors.ts'
import type { DashboardHandlers } from '../../http/dashboard/call.ts'
import type { Database } from '../../platform/database.ts'
import type { Passwords } from '../passwords.ts'
import type { Sessions } from '../sessions.ts'
import type { Users } from '../users.ts'
import type { Attempts } from './attempts.ts'
import type { RecordFailure } from './failures.ts'
import type { NewSessions } from './new-session.ts'
import { type RecordEntry, userOf } from './record.ts'

export interface SessionDependencies {
  readonly database: Database
  readonly users: Pick<Users, 'byEmail' | 'hasPassword'>
  readonly sessions: Pick<Sessions, 'end' | 'list'>
  readonly passwords: Pick<Passwords, 'verify'>
  readonly newSessions: NewSessions
  readonly attempts: Pick<Attempts, 'signIn'>
  readonly record: RecordEntry
  readonly recordFailure: RecordFailure
}

type SessionHandlers = Pick<
  DashboardHandlers,
  'session.create' | 'session.get' | 'session.delete' | 'sessions.list' | 'sessions.revoke'
>

/** The handlers for signing in and out, and for the list of a user's sessions. */
export function sessionHandlers(dependencies: SessionDependencies): SessionHandlers {
  const { database, sessions, newSessions, record } = dependencies
  return {
    'session.create': signIn(dependencies),

    'session.get': ({ signedIn }) => newSessions.describe(userOf(signedIn), signedIn.sessionId),

    'session.delete': async ({ signedIn, request, setToken }) => {
      const user = userOf(signedIn)
      const { sessionId } = signedIn
      await database.transaction().execute(async (transaction) => {
        await sessions.end(transaction, user.id, sessionId)
        const entry = { operation: 'session.delete', accountId: user.accountId, user, resourceId: sessionId }
        await record(transaction, request, entry)
      })
      setToken(null)
      return undefined
    },

    'sessions.list': async ({ signedIn }) => {
      const all = await sessions.list(signedIn.principal.actor.id)
      return { sessions: all.map((session) => ({ ...session, current: session.id === signedIn.sessionId })) }
    },

    'sessions.revoke': async ({ signedIn, request, params }) => {
      const user = userOf(signedIn)
      await database.transaction().execute(async (transaction) => {
        if (!(await sessions.end(transaction, user.id, params.id))) throw notFound()
        const entry = { operation: 'sessions.revoke', accountId: user.accountId, user, resourceId: params.id }
        await record(transaction, request, entry)
      })
      return undefined
    },
  }
}

function signIn({
  database,
  users,
  passwords,
  newSessions,
  attempts,
  recordFailure,
}: Omit<SessionDependencies, 'sessions' | 'record'>): DashboardHandlers['session.create'] {
  return async (call) => {
    const { email, password, device } = call.body
    const giveBack = await attempts.signIn(call, { email, device })
    const user = await users.byEmail(email)
    const matches = await passwords.verify(password, user?.passwordHash)
    const begun =
      matches && user !== undefined
        ? await database.transaction().execute(async (transaction) => {
            // A password change ends all sessions: none may begin afterwards with the old password.
            const current = await users.hasPassword(transaction, user.id, user.passwordHash)
            return current ? newSessions.begin(transaction, call, user, 'session.create') : undefined
          })
        : undefined
    if (begun === undefined || user === undefined) {
      await recordFailure(call.request, 'session.create_failed', user)
      throw new ApiError('unauthorized', 'The e-mail address or the password is wrong.')
    }
    await giveBack()
    return newSessions.answer(call, user, begun)
  }
}
