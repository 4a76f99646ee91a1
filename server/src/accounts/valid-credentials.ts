import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import { alive } from './sessions.ts'
import type { AccountsTables } from './tables.ts'

/** Returns those of these keys and sessions, by their ids, that are neither revoked nor expired. */
export async function validCredentials(database: Database, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const db = database.withTables<AccountsTables>()
  const wanted = sql<string>`any(${[...ids]}::text[])`
  const keys = await db
    .selectFrom('api_keys')
    .select('id')
    .where('id', '=', wanted)
    .where('revoked_at', 'is', null)
    .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', sql<Date>`now()`)]))
    .execute()
  const sessions = await db.selectFrom('sessions').select('id').where('id', '=', wanted).where(alive).execute()
  return new Set([...keys, ...sessions].map(({ id }) => id))
}
