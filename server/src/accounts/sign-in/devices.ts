import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { AccountsTables } from '../tables.ts'
import { hashToken, newToken } from '../tokens.ts'

/**
 * The browsers in which users have signed in. A browser names itself by a token that its page keeps in the storage of its
 * origin, and not in a cookie: apps on other ports of the host would get the cookie, and could use up its attempts. The
 * token gives no access. It only says which attempts to sign in are counted together.
 */
export interface Devices {
  /** True when the user has signed in with the browser of this token. */
  isKnown(email: string, token: string): Promise<boolean>
  /** Notes that the user has signed in. Returns the browser's token: a new one when the given one is not known. */
  remember(transaction: Transaction, userId: string, token: string | undefined): Promise<string>
  /** Removes browsers in which nobody has signed in for a year. */
  forget(): Promise<void>
}

/** The most browsers of a user; those that were not used for the longest time are forgotten. */
const mostDevices = 50

export function createDevices({ database }: { readonly database: Database }): Devices {
  const db = database.withTables<AccountsTables>()
  return {
    async isKnown(email, token) {
      const row = await db
        .selectFrom('devices')
        .innerJoin('users', 'users.id', 'devices.user_id')
        .select('user_id')
        .where('hash', '=', hashToken(token))
        .where('email', '=', email)
        .executeTakeFirst()
      return row !== undefined
    },

    async remember(transaction, userId, given) {
      const tables = transaction.withTables<AccountsTables>()
      const known =
        given === undefined
          ? undefined
          : await tables
              .selectFrom('devices')
              .select('hash')
              .where('hash', '=', hashToken(given))
              .limit(1)
              .executeTakeFirst()
      // A token that was not made here could be one that others know.
      const token = given !== undefined && known !== undefined ? given : newToken()
      await tables
        .insertInto('devices')
        .values({ hash: hashToken(token), user_id: userId })
        .onConflict((conflict) => conflict.columns(['hash', 'user_id']).doUpdateSet({ last_used_at: sql<Date>`now()` }))
        .execute()
      const beyond = tables
        .selectFrom('devices')
        .select('hash')
        .where('user_id', '=', userId)
        .orderBy('last_used_at', 'desc')
        .offset(mostDevices)
      await tables.deleteFrom('devices').where('user_id', '=', userId).where('hash', 'in', beyond).execute()
      return token
    },

    async forget() {
      await db.deleteFrom('devices').where('last_used_at', '<', sql<Date>`now() - interval '1 year'`).execute()
    },
  }
}
