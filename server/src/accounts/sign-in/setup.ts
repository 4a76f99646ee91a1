import { invalidRequest, notFound } from '../../contract/errors.ts'
import type { DashboardHandlers } from '../../http/dashboard/call.ts'
import type { Database } from '../../platform/database.ts'
import type { Accounts } from '../accounts.ts'
import type { Passwords } from '../passwords.ts'
import type { Users } from '../users.ts'
import type { Attempts } from './attempts.ts'
import type { NewSessions } from './new-session.ts'

export interface SetupDependencies {
  readonly database: Database
  readonly accounts: Pick<Accounts, 'get'>
  readonly users: Pick<Users, 'create' | 'setupLink' | 'useSetupLink'>
  readonly passwords: Pick<Passwords, 'hash'>
  readonly newSessions: NewSessions
  readonly attempts: Pick<Attempts, 'wrongLink'>
}

/** The handlers that create a user by a setup link. */
export function setupHandlers({
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
