import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import { tablesOf } from './tables.ts'
import { forgetHistory } from './work/history.ts'

const keptDays = 30

/** Removes certificates that were revoked 30 days ago, and the orders and pauses that no limit needs any more. */
export async function forgetCertificates(database: Database): Promise<void> {
  await tablesOf(database)
    .deleteFrom('certificates')
    .where('revoked_at', '<', sql<Date>`now() - make_interval(days => ${keptDays})`)
    .execute()
  await forgetHistory(database)
}
