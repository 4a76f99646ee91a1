import type { Audit } from '../../http/audit.ts'
import type { DashboardHandlers } from '../../http/dashboard/call.ts'
import type { Database } from '../../platform/database.ts'
import type { Accounts } from '../accounts.ts'
import type { Passwords } from '../passwords.ts'
import type { Sessions } from '../sessions.ts'
import type { Users } from '../users.ts'
import { createAttempts } from './attempts.ts'
import { createDevices } from './devices.ts'
import { createFailureRecorder } from './failures.ts'
import { createNewSessions } from './new-session.ts'
import { passwordHandlers } from './password.ts'
import { createRecorder } from './record.ts'
import { sessionHandlers } from './session.ts'
import { setupHandlers } from './setup.ts'

export interface SignInDependencies {
  readonly database: Database
  readonly accounts: Accounts
  readonly users: Users
  readonly sessions: Sessions
  readonly passwords: Passwords
  readonly audit: Audit
  /** The account whose audit log gets failed attempts under unknown e-mail addresses. */
  readonly operatorId: string
}

/** The handlers for setup, sign-in, sign-out, password and sessions. Every change is recorded in the audit log. */
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
