import type { Audit } from '../../http/audit.ts'
import type { DashboardRequest, SignedIn } from '../../http/dashboard/call.ts'
import type { Transaction } from '../../platform/database.ts'
import type { User } from '../users.ts'

/** The parts of a user that handlers know from the session. */
export type SessionUser = Pick<User, 'id' | 'email' | 'accountId'>

export interface Recorded {
  readonly operation: string
  readonly accountId: string
  /** `undefined` for a failed sign-in under an unknown e-mail address. */
  readonly user: Pick<User, 'id' | 'email'> | undefined
  readonly resourceId?: string
}

/** Writes an audit entry for a request of a user. */
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
