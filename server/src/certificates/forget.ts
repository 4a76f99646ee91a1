import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import { tablesOf } from './tables.ts'
import { forgetHistory } from './work/history.ts'

const keptDays = 30

/** Removes revoked certificates after some time, and what limits and pauses need no more. */
export async function forgetCertificates(database: Database): Promise<void> {
  await tablesOf(database)
    .deleteFrom('certificates')
    .where('revoked_at', '<', sql<Date>`now() - make_interval(days => ${keptDays})`)
    .execute()
  await forgetHistory(database)
}
