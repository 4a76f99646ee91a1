import type { DashboardRequest } from '../../http/dashboard/call.ts'
import type { Database } from '../../platform/database.ts'
import type { RecordEntry, SessionUser } from './record.ts'

/**
 * Records a failed attempt. Attempts under an unknown e-mail address go to the operator's account without what was typed;
 * the same write in both cases takes the same time.
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
