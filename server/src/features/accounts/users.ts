import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { AccountsTables } from './tables.ts'
import { hashToken, newToken } from './tokens.ts'

export interface User {
  readonly id: string
  readonly accountId: string
  readonly email: string
  readonly createdAt: Date
}

export interface Users extends SetupLinks {
  list(): Promise<User[]>
  any(): Promise<boolean>
  byEmail(email: string): Promise<(User & { readonly passwordHash: string }) | undefined>
  /** Returns `'taken'` when another user has this address. The transaction remains usable. */
  create(
    transaction: Transaction,
    user: { accountId: string; email: string; passwordHash: string },
  ): Promise<User | 'taken'>
  /** True when the password still has this hash. Locks the row until the end of the transaction. */
  hasPassword(transaction: Transaction, id: string, passwordHash: string): Promise<boolean>
  /** Changes the password if its hash is still `from`; returns false otherwise. */
  changePassword(
    transaction: Transaction,
    id: string,
    hashes: { readonly from: string; readonly to: string },
  ): Promise<boolean>
  /** Deletes a user with all sessions. Returns the user, or `undefined` when there is none. */
  delete(transaction: Transaction, id: string): Promise<User | undefined>
}

const fields = ['id', 'account_id as accountId', 'email', 'created_at as createdAt'] as const

export function createUsers({ database }: { database: Database }): Users {
  const db = database.withTables<AccountsTables>()
  const tables = (transaction: Transaction) => transaction.withTables<AccountsTables>()

  return {
    list: () => db.selectFrom('users').select(fields).orderBy('id').execute(),

    async any() {
      return (await db.selectFrom('users').select('id').limit(1).executeTakeFirst()) !== undefined
    },

    byEmail: (email) =>
      db
        .selectFrom('users')
        .select([...fields, 'password_hash as passwordHash'])
        .where('email', '=', email)
        .executeTakeFirst(),

    async create(transaction, { accountId, email, passwordHash }) {
      const made = await tables(transaction)
        .insertInto('users')
        .values({ id: newId('user'), account_id: accountId, email, password_hash: passwordHash })
        .onConflict((conflict) => conflict.column('email').doNothing())
        .returning(fields)
        .executeTakeFirst()
      return made ?? 'taken'
    },

    async hasPassword(transaction, id, passwordHash) {
      const row = await tables(transaction)
        .selectFrom('users')
        .select('id')
        .where('id', '=', id)
        .where('password_hash', '=', passwordHash)
        .forUpdate()
        .executeTakeFirst()
      return row !== undefined
    },

    async changePassword(transaction, id, { from, to }) {
      const { numUpdatedRows } = await tables(transaction)
        .updateTable('users')
        .set({ password_hash: to })
        .where('id', '=', id)
        .where('password_hash', '=', from)
        .executeTakeFirst()
      return numUpdatedRows === 1n
    },

    delete: (transaction, id) =>
      tables(transaction).deleteFrom('users').where('id', '=', id).returning(fields).executeTakeFirst(),

    ...createSetupLinks({ database }),
  }
}

/** One-time links. Each creates one user of an account and expires after an hour. */
interface SetupLinks {
  /** Deletes the oldest unused links of an account that has too many. Returns the token. */
  createSetupLink(accountId: string, transaction?: Transaction): Promise<string>
  /** Returns a link's account and end; `undefined` when it is used, expired or unknown. */
  setupLink(token: string): Promise<{ accountId: string; expiresAt: Date } | undefined>
  useSetupLink(transaction: Transaction, token: string): Promise<string | undefined>
  forget(): Promise<void>
}

const mostLinks = 100

function createSetupLinks({ database }: { database: Database }): SetupLinks {
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
