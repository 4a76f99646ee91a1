import { sql } from 'kysely'
import type { Transaction } from '../../platform/database.ts'
import { tablesOf } from './tables.ts'

/** The states in which no job works on a deployment and nothing of it runs. */
export const restingStatuses = ['failed', 'canceled', 'superseded', 'stopped'] as const

/** The columns of a deployment that comes to rest: it has an end, waits for nothing, and its token is deleted. */
export const atRest = { finished_at: sql<Date>`coalesce(finished_at, now())`, git_token: null, builds_before: null }

/**
 * Waits for a change of the deployment that is not committed yet. Otherwise a guarded update would test the state before
 * that change, and the error that explains the refusal would name the state after it.
 */
export async function lockDeployment(transaction: Transaction, id: string): Promise<void> {
  await tablesOf(transaction).selectFrom('deployments').select('id').where('id', '=', id).forUpdate().execute()
}
