import { sql } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'
import type { AccountsTables } from './tables.ts'
import { hashToken, newToken } from './tokens.ts'

/** One-time links, each of which creates one user of an account within an hour. */
export interface SetupLinks {
  /** Creates a link and returns its token. Of many unused links of an account, the oldest ones end. */
  createSetupLink(accountId: string, transaction?: Transaction): Promise<string>
  /** Returns the account and the end of a link; `undefined` when it is used, expired or never existed. */
  setupLink(token: string): Promise<{ accountId: string; expiresAt: Date } | undefined>
  /** Uses up a link as part of the transaction, and returns its account. */
  useSetupLink(transaction: Transaction, token: string): Promise<string | undefined>
  /** Removes expired links. */
  forget(): Promise<void>
}

/** The most unused links of an account. */
const mostLinks = 100

export function createSetupLinks({ database }: { database: Database }): SetupLinks {
  const db = database.withTables<AccountsTables>()

  return {
    async createSetupLink(accountId, transaction) {
      const token = newToken()
      const tables = (transaction ?? database).withTables<AccountsTables>()
      await tables
        .insertInto('setup_links')
        .values({ hash: hashToken(token), account_id: accountId, expires_at: sql<Date>`now() + interval '1 hour'` })
        .execute()
      const beyond = tables
        .selectFrom('setup_links')
        .select('hash')
        .where('account_id', '=', accountId)
        .orderBy('expires_at', 'desc')
        .offset(mostLinks)
      await tables.deleteFrom('setup_links').where('hash', 'in', beyond).execute()
      return token
    },

    setupLink: (token) =>
      db
        .selectFrom('setup_links')
        .select(['account_id as accountId', 'expires_at as expiresAt'])
        .where('hash', '=', hashToken(token))
        .where('expires_at', '>', sql<Date>`now()`)
        .executeTakeFirst(),

    async useSetupLink(transaction, token) {
      const row = await transaction
        .withTables<AccountsTables>()
        .deleteFrom('setup_links')
        .where('hash', '=', hashToken(token))
        .where('expires_at', '>', sql<Date>`now()`)
        .returning('account_id')
        .executeTakeFirst()
      return row?.account_id
    },

    async forget() {
      await db.deleteFrom('setup_links').where('expires_at', '<=', sql<Date>`now()`).execute()
    },
  }
}
