import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { AccountsTables } from '../tables.ts'

/** Revokes the valid keys that a rule has allowed. */
export async function revokeKeysOf(transaction: Transaction, trustId: string): Promise<void> {
  await transaction
    .withTables<AccountsTables>()
    .updateTable('api_keys')
    .set({ revoked_at: sql<Date>`now()` })
    .where('workflow', 'is not', null)
    .where(sql<string>`workflow->>'trust_id'`, '=', trustId)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', sql<Date>`now()`)
    .execute()
}

/** Removes keys of workflows that expired more than this number of days ago. */
export async function forgetWorkflowKeys(database: Database, days: number): Promise<void> {
  await database
    .withTables<AccountsTables>()
    .deleteFrom('api_keys')
    .where('workflow', 'is not', null)
    .where('expires_at', '<', sql<Date>`now() - make_interval(days => ${days})`)
    .execute()
}
