import { sql } from 'kysely'
import type { Scope } from '../contract/routes.ts'
import type { Principal } from '../http/principal.ts'
import type { Database } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { generateKey, hashKey, isWellFormedKey } from './key-format.ts'
import type { AccountsTables } from './tables.ts'

export interface NewKey {
  readonly accountId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** `null` for all projects of the account. */
  readonly projectIds: readonly string[] | null
}

export interface KeySummary {
  readonly id: string
  readonly accountId: string
  readonly name: string
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
  readonly revokedAt: Date | null
}

export interface Keys {
  /** Gives the key itself, which is stored as a hash and cannot be shown again. */
  create(key: NewKey): Promise<{ id: string; key: string }>
  list(): Promise<KeySummary[]>
  /** Holds at once on every server; false when there is no such key. */
  revoke(id: string): Promise<boolean>
  /** The principal of an `Authorization` header's value; `undefined` when it names no valid key. */
  authenticate(authorization: string): Promise<Principal | undefined>
}

const bearer = /^Bearer +(\S+)$/i

export function createKeys({ database }: { database: Database }): Keys {
  const db = database.withTables<AccountsTables>()

  return {
    async create({ accountId, name, scopes, projectIds }) {
      const id = newId('key')
      const key = generateKey()
      await db
        .insertInto('api_keys')
        .values({
          id,
          account_id: accountId,
          name,
          hash: hashKey(key),
          scopes: [...scopes],
          project_ids: projectIds === null ? null : [...projectIds],
        })
        .execute()
      return { id, key }
    },

    async list() {
      const rows = await db.selectFrom('api_keys').selectAll().orderBy('id').execute()
      return rows.map((row) => ({
        id: row.id,
        accountId: row.account_id,
        name: row.name,
        createdAt: row.created_at,
        lastUsedAt: row.last_used_at,
        revokedAt: row.revoked_at,
      }))
    },

    async revoke(id) {
      const { numUpdatedRows } = await db
        .updateTable('api_keys')
        .set({ revoked_at: sql<Date>`coalesce(revoked_at, now())` })
        .where('id', '=', id)
        .executeTakeFirst()
      return numUpdatedRows > 0n
    },

    async authenticate(authorization) {
      const key = bearer.exec(authorization)?.[1]
      // The checksum spares the database a question about what cannot be a key.
      if (key === undefined || !isWellFormedKey(key)) return undefined
      const row = await db
        .selectFrom('api_keys')
        .select([
          'id',
          'account_id',
          'scopes',
          'project_ids',
          sql<boolean>`last_used_at > now() - interval '1 minute'`.as('used_lately'),
        ])
        .where('hash', '=', hashKey(key))
        .where('revoked_at', 'is', null)
        .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', sql<Date>`now()`)]))
        .executeTakeFirst()
      if (row === undefined) return undefined
      // To the minute: a write for every request would cost more than the answer is worth.
      if (row.used_lately !== true) {
        await db.updateTable('api_keys').set({ last_used_at: sql<Date>`now()` }).where('id', '=', row.id).execute()
      }
      return {
        accountId: row.account_id,
        actor: { type: 'key', id: row.id },
        scopes: new Set(row.scopes),
        projectIds: row.project_ids === null ? null : new Set(row.project_ids),
      }
    },
  }
}
