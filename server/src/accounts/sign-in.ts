import type { DashboardBodyOutput, DashboardResponse } from '../contract/dashboard-operations.ts'
import { ApiError, invalidRequest, notFound } from '../contract/errors.ts'
import type { Audit } from '../http/audit.ts'
import { networkOf } from '../http/client-address.ts'
import type { DashboardCall, DashboardHandlers, SignedIn } from '../http/dashboard.ts'
import { createAttemptLimiter } from '../platform/attempts.ts'
import type { Database, Transaction } from '../platform/database.ts'
import type { Accounts } from './accounts.ts'
import type { Passwords } from './passwords.ts'
import type { Sessions } from './sessions.ts'
import type { User, Users } from './users.ts'

export interface SignInDependencies {
  readonly database: Database
  readonly accounts: Accounts
  readonly users: Users
  readonly sessions: Sessions
  readonly passwords: Passwords
  readonly audit: Audit
  /** Whose audit log failed attempts under unknown names are written to. */
  readonly operatorId: string
}

/** Failed attempts in a quarter of an hour. */
const attempts = { ofAddress: 20, forUser: 10, windowMs: 15 * 60_000 }

type AnyCall = Pick<DashboardCall<'session.create'>, 'token' | 'request' | 'setToken' | 'setRetryAfter'>

/** Setup, sign-in, sign-out, password and sessions. Every one of them leaves an entry in the audit log. */
export function createSignIn(dependencies: SignInDependencies): DashboardHandlers {
  const { database, accounts, users, sessions, passwords, audit, operatorId } = dependencies
  const byAddress = createAttemptLimiter({ most: attempts.ofAddress, windowMs: attempts.windowMs })
  const byUser = createAttemptLimiter({ most: attempts.forUser, windowMs: attempts.windowMs })

  /** Counts an attempt before it is made, so that many at once are no way around; gives back what undoes it. */
  const countAttempt = (call: AnyCall, email?: string): (() => void) => {
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

  const record = (
    transaction: Transaction,
    call: { readonly request: AnyCall['request'] },
    what: { operation: string; accountId: string; user: Pick<User, 'id' | 'email'> | undefined; resourceId?: string },
  ) =>
    audit(transaction, {
      accountId: what.accountId,
      actor: { type: 'user', id: what.user?.id ?? null, name: what.user?.email ?? null },
      address: call.request.address,
      requestId: call.request.id,
      operation: what.operation,
      projectId: null,
      resourceId: what.resourceId ?? null,
    })

  /** The same work for users that there are not, so that it takes the same time; without what was typed. */
  const recordFailure = async (call: AnyCall, operation: string, user: User | undefined) => {
    const accountId = user?.accountId ?? operatorId
    await database.transaction().execute((transaction) => record(transaction, call, { operation, accountId, user }))
  }

  const describe = async (user: Pick<User, 'id' | 'email' | 'accountId'>, sessionId: string) => {
    const [account, all] = await Promise.all([accounts.get(user.accountId), sessions.list(user.id)])
    const session = all.find(({ id }) => id === sessionId)
    if (account === undefined || session === undefined) throw new ApiError('unauthorized', 'Sign in again.')
    return {
      user: { id: user.id, email: user.email },
      account: { id: account.id, name: account.name, plan: account.plan },
      session: { id: session.id, created_at: session.created_at, expires_at: session.expires_at },
    }
  }

  const begin = async (transaction: Transaction, call: AnyCall, user: User, operation: string) => {
    const { address, userAgent } = call.request
    const session = await sessions.begin(transaction, user.id, { address, userAgent, token: call.token })
    await record(transaction, call, { operation, accountId: user.accountId, user, resourceId: session.id })
    return session
  }

  const signIn = async (
    call: AnyCall & { readonly body: DashboardBodyOutput<'session.create'> },
  ): Promise<DashboardResponse<'session.create'>> => {
    const { email, password } = call.body
    const giveBack = countAttempt(call, email)
    const user = await users.byEmail(email)
    const matches = await passwords.verify(password, user?.passwordHash)
    const session =
      matches && user !== undefined
        ? await database.transaction().execute(async (transaction) => {
            // Changed in the meantime, it ends all sessions; none may begin by the old one then.
            const current = await users.hasPassword(transaction, user.id, user.passwordHash)
            return current ? begin(transaction, call, user, 'session.create') : undefined
          })
        : undefined
    if (session === undefined || user === undefined) {
      await recordFailure(call, 'session.create_failed', user)
      throw new ApiError('unauthorized', 'The e-mail address or the password is wrong.')
    }
    giveBack()
    call.setToken(session.token)
    return describe(user, session.id)
  }

  const completeSetup = async (
    call: AnyCall & { readonly body: DashboardBodyOutput<'setup.complete'> },
  ): Promise<DashboardResponse<'setup.complete'>> => {
    const { token, email, password } = call.body
    const giveBack = countAttempt(call)
    if ((await users.setupLink(token)) === undefined) throw notFound()
    const passwordHash = await passwords.hash(password)
    const { user, session } = await database.transaction().execute(async (transaction) => {
      const accountId = await users.useSetupLink(transaction, token)
      if (accountId === undefined) throw notFound()
      const made = await users.create(transaction, { accountId, email, passwordHash })
      if (made === 'taken') throw invalidRequest({ field: 'email', message: 'there is a user with this address' })
      return { user: made, session: await begin(transaction, call, made, 'setup.complete') }
    })
    giveBack()
    call.setToken(session.token)
    return describe(user, session.id)
  }

  const userOf = ({ principal }: SignedIn) => ({
    id: principal.actor.id,
    email: principal.actor.name,
    accountId: principal.accountId,
  })

  return {
    'setup.check': async (call) => {
      const giveBack = countAttempt(call)
      const link = await users.setupLink(call.body.token)
      const account = link && (await accounts.get(link.accountId))
      if (link === undefined || account === undefined) throw notFound()
      giveBack()
      return { account: { id: account.id, name: account.name }, expires_at: link.expiresAt.toISOString() }
    },
    'setup.complete': completeSetup,
    'session.create': signIn,
    'session.get': ({ signedIn }) => describe(userOf(signedIn), signedIn.sessionId),

    'session.delete': async (call) => {
      const { signedIn } = call
      const user = userOf(signedIn)
      await database.transaction().execute(async (transaction) => {
        await sessions.end(transaction, user.id, signedIn.sessionId)
        await record(transaction, call, {
          operation: 'session.delete',
          accountId: user.accountId,
          user,
          resourceId: signedIn.sessionId,
        })
      })
      call.setToken(null)
      return undefined
    },

    'password.change': async (call) => {
      const { signedIn, body } = call
      const user = userOf(signedIn)
      const giveBack = countAttempt(call, user.email)
      const stored = await users.byEmail(user.email)
      if (stored === undefined || !(await passwords.verify(body.current_password, stored.passwordHash))) {
        await recordFailure(call, 'password.change_failed', stored)
        throw invalidRequest({ field: 'current_password', message: 'is wrong' })
      }
      giveBack()
      const passwordHash = await passwords.hash(body.new_password)
      await database.transaction().execute(async (transaction) => {
        await users.setPassword(transaction, user.id, passwordHash)
        await sessions.endOthers(transaction, user.id, signedIn.sessionId)
        await record(transaction, call, {
          operation: 'password.change',
          accountId: user.accountId,
          user,
          resourceId: user.id,
        })
      })
      return undefined
    },

    'sessions.list': async ({ signedIn }) => {
      const all = await sessions.list(signedIn.principal.actor.id)
      return { sessions: all.map((session) => ({ ...session, current: session.id === signedIn.sessionId })) }
    },

    'sessions.revoke': async (call) => {
      const { signedIn, params } = call
      const user = userOf(signedIn)
      await database.transaction().execute(async (transaction) => {
        if (!(await sessions.end(transaction, user.id, params.id))) throw notFound()
        await record(transaction, call, {
          operation: 'sessions.revoke',
          accountId: user.accountId,
          user,
          resourceId: params.id,
        })
      })
      return undefined
    },
  }
}
