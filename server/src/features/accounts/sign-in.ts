import type { DashboardResponse } from '../../contract/dashboard.ts'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { Audit } from '../../http/call.ts'
import type { DashboardCall, DashboardHandlers } from '../../http/dashboard.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { AccountStore } from './accounts.ts'
import type { Passwords } from './passwords.ts'
import type { NewSession, Sessions } from './sessions.ts'
import {
  type Attempts,
  createAttempts,
  createDevices,
  createFailureRecorder,
  createRecorder,
  type Devices,
  type RecordEntry,
  type RecordFailure,
  type SessionUser,
  userOf,
} from './sign-in-attempts.ts'
import type { Users } from './users.ts'

export interface SignInDependencies {
  readonly database: Database
  readonly accounts: AccountStore
  readonly users: Users
  readonly sessions: Sessions
  readonly passwords: Passwords
  readonly audit: Audit
  readonly operatorId: string
}

export function createSignIn(dependencies: SignInDependencies): Omit<DashboardHandlers, `device.${string}`> {
  const { database, accounts, users, sessions, passwords, audit, operatorId } = dependencies
  const devices = createDevices({ database })
  const attempts = createAttempts(database, devices)
  const record = createRecorder(audit)
  const recordFailure = createFailureRecorder({ database, record, operatorId })
  const newSessions = createNewSessions({ accounts, sessions, devices, record })
  return {
    ...setupHandlers({ database, accounts, users, passwords, newSessions, attempts }),
    ...sessionHandlers({
      database,
      users,
      sessions,
      passwords,
      newSessions,
      attempts,
      record,
      recordFailure,
    }),
    ...passwordHandlers({ database, users, sessions, passwords, attempts, record, recordFailure }),
  }
}

export interface SetupDependencies {
  readonly database: Database
  readonly accounts: Pick<AccountStore, 'get'>
  readonly users: Pick<Users, 'create' | 'setupLink' | 'useSetupLink'>
  readonly passwords: Pick<Passwords, 'hash'>
  readonly newSessions: NewSessions
  readonly attempts: Pick<Attempts, 'wrongLink'>
}

function setupHandlers({
  database,
  accounts,
  users,
  passwords,
  newSessions,
  attempts,
}: SetupDependencies): Pick<DashboardHandlers, 'setup.check' | 'setup.complete'> {
  return {
    'setup.check': async (call) => {
      const link = await users.setupLink(call.body.token)
      const account = link && (await accounts.get(link.accountId))
      if (link === undefined || account === undefined) {
        await attempts.wrongLink(call)
        throw notFound()
      }
      return { account: { id: account.id, name: account.name }, expires_at: link.expiresAt.toISOString() }
    },

    'setup.complete': async (call) => {
      const { token, email, password } = call.body
      if ((await users.setupLink(token)) === undefined) {
        await attempts.wrongLink(call)
        throw notFound()
      }
      const passwordHash = await passwords.hash(password)
      const { user, begun } = await database.transaction().execute(async (transaction) => {
        const accountId = await users.useSetupLink(transaction, token)
        if (accountId === undefined) throw notFound()
        const made = await users.create(transaction, { accountId, email, passwordHash })
        if (made === 'taken') throw invalidRequest({ field: 'email', message: 'there is a user with this address' })
        return { user: made, begun: await newSessions.begin(transaction, call, made, 'setup.complete') }
      })
      return newSessions.answer(call, user, begun)
    },
  }
}

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

function sessionHandlers(dependencies: SessionDependencies): SessionHandlers {
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
            // A password change ends all sessions, so no session may begin afterwards with the old password.
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

export interface PasswordDependencies {
  readonly database: Database
  readonly users: Pick<Users, 'byEmail' | 'changePassword'>
  readonly sessions: Pick<Sessions, 'endOthers'>
  readonly passwords: Passwords
  readonly attempts: Pick<Attempts, 'changePassword'>
  readonly record: RecordEntry
  readonly recordFailure: RecordFailure
}

function passwordHandlers({
  database,
  users,
  sessions,
  passwords,
  attempts,
  record,
  recordFailure,
}: PasswordDependencies): Pick<DashboardHandlers, 'password.change'> {
  return {
    'password.change': async (call) => {
      const { signedIn, body, request } = call
      const user = userOf(signedIn)
      const giveBack = await attempts.changePassword(call, user.id)
      const stored = await users.byEmail(user.email)
      const refuse = async (): Promise<never> => {
        await recordFailure(request, 'password.change_failed', stored)
        throw invalidRequest({ field: 'current_password', message: 'is wrong' })
      }
      if (stored === undefined || !(await passwords.verify(body.current_password, stored.passwordHash))) return refuse()
      await giveBack()
      const hashes = { from: stored.passwordHash, to: await passwords.hash(body.new_password) }
      const isChanged = await database.transaction().execute(async (transaction) => {
        // Another request may have changed the password since the check.
        if (!(await users.changePassword(transaction, user.id, hashes))) return false
        await sessions.endOthers(transaction, user.id, signedIn.sessionId)
        const entry = { operation: 'password.change', accountId: user.accountId, user, resourceId: user.id }
        await record(transaction, request, entry)
        return true
      })
      return isChanged ? undefined : refuse()
    },
  }
}

export interface Begun extends NewSession {
  readonly device: string
}

interface NewSessions {
  /** Begins a session in the transaction, and records the operation that caused it. */
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

function createNewSessions(dependencies: {
  readonly accounts: Pick<AccountStore, 'get'>
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
