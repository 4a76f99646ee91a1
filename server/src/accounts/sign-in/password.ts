import { invalidRequest } from '../../contract/errors.ts'
import type { DashboardHandlers } from '../../http/dashboard/call.ts'
import type { Database } from '../../platform/database.ts'
import type { Passwords } from '../passwords.ts'
import type { Sessions } from '../sessions.ts'
import type { Users } from '../users.ts'
import type { Attempts } from './attempts.ts'
import type { RecordFailure } from './failures.ts'
import { type RecordEntry, userOf } from './record.ts'

export interface PasswordDependencies {
  readonly database: Database
  readonly users: Pick<Users, 'byEmail' | 'changePassword'>
  readonly sessions: Pick<Sessions, 'endOthers'>
  readonly passwords: Passwords
  readonly attempts: Pick<Attempts, 'changePassword'>
  readonly record: RecordEntry
  readonly recordFailure: RecordFailure
}

/** The handler that changes a user's password and ends the user's other sessions. */
export function passwordHandlers({
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
        // Another change may have been made since the check.
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
