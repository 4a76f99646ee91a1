import { sql } from 'kysely'
import type { Principal } from '../../http/principal.ts'
import { createBatcher } from '../../platform/database/batcher.ts'
import type { Database } from '../../platform/database.ts'
import { type Plans, requestsPerHour } from '../../platform/plans.ts'
import { hashKey, isWellFormedKey } from './keys.ts'
import { alive } from './sessions.ts'
import type { AccountsTables } from './tables.ts'

const bearer = /^Bearer +(\S+)$/i

/**
 * Returns a function that finds the principal of an `Authorization` header, or `undefined` when the key is not valid.
 * It asks the database at each request, so that a revocation works at once; concurrent requests share a query.
 */
export function createAuthentication({
  database,
  plans,
}: {
  database: Database
  plans: Plans
}): (authorization: string) => Promise<Principal | undefined> {
  const db = database.withTables<AccountsTables>()

  const find = createBatcher(async (hashes: readonly Buffer[]) => {
    const rows = await db
      .selectFrom('api_keys')
      .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
      .select([
        'api_keys.id',
        'api_keys.name',
        'account_id',
        'hash',
        'scopes',
        'project_ids',
        'workflow',
        'plan',
        'requests_per_hour',
        sql<boolean>`coalesce(last_used_at > now() - interval '1 minute', false)`.as('used_recently'),
      ])
      .where('hash', '=', sql<Buffer>`any(${[...hashes]}::bytea[])`)
      .where('revoked_at', 'is', null)
      .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', sql<Date>`now()`)]))
      .execute()
    // Stored to the minute: a write for every request would be too expensive.
    const stale = rows.filter((row) => !row.used_recently).map(({ id }) => id)
    if (stale.length > 0) {
      await db.updateTable('api_keys').set({ last_used_at: sql<Date>`now()` }).where('id', 'in', stale).execute()
    }
    const principals = new Map(
      rows.map((row): [string, Principal] => [
        row.hash.toString('hex'),
        {
          accountId: row.account_id,
          credentialId: row.id,
          actor: { type: 'key', id: row.id, name: row.name },
          scopes: new Set(row.scopes),
          projectIds: row.project_ids === null ? null : new Set(row.project_ids),
          workflow: row.workflow,
          requestsPerHour: row.requests_per_hour ?? requestsPerHour(plans, row.plan),
        },
      ]),
    )
    return hashes.map((hash) => principals.get(hash.toString('hex')))
  })

  return async (authorization) => {
    const key = bearer.exec(authorization)?.[1]
    // A wrong checksum is refused without a query.
    return key === undefined || !isWellFormedKey(key) ? undefined : find(hashKey(key))
  }
}

/** Returns the ids of the keys and sessions that are neither revoked nor expired. */
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
