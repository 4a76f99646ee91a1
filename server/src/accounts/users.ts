import { sql } from 'kysely'
import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import type { AccountsTables } from './tables.ts'
import { hashToken, newToken } from './tokens.ts'

export interface User {
  readonly id: string
  readonly accountId: string
  readonly email: string
  readonly createdAt: Date
}

/** Users and the one-time links by which they are made. */
export interface Users {
  list(): Promise<User[]>
  any(): Promise<boolean>
  /** With the hash of the password. */
  byEmail(email: string): Promise<(User & { readonly passwordHash: string }) | undefined>
  /** `'taken'` when there is a user with this address; the transaction goes on. */
  create(
    transaction: Transaction,
    user: { accountId: string; email: string; passwordHash: string },
  ): Promise<User | 'taken'>
  /** Whether the password is still this one; held so until the end of the transaction. */
  hasPassword(transaction: Transaction, id: string, passwordHash: string): Promise<boolean>
  setPassword(transaction: Transaction, id: string, passwordHash: string): Promise<void>
  /** With all sessions; gives the user, or `undefined` when there is none such. */
  delete(transaction: Transaction, id: string): Promise<User | undefined>

  /** Gives the token of a link that makes one user of the account within an hour. */
  createSetupLink(accountId: string, within?: Transaction): Promise<string>
  /** What a link is good for; `undefined` when it is used, expired or was never made. */
  setupLink(token: string): Promise<{ accountId: string; expiresAt: Date } | undefined>
  /** Uses the link up, if the transaction holds; gives its account. */
  useSetupLink(transaction: Transaction, token: string): Promise<string | undefined>
  /** Removes expired links. */
  forget(): Promise<void>
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

    async setPassword(transaction, id, passwordHash) {
      await tables(transaction).updateTable('users').set({ password_hash: passwordHash }).where('id', '=', id).execute()
    },

    delete: (transaction, id) =>
      tables(transaction).deleteFrom('users').where('id', '=', id).returning(fields).executeTakeFirst(),

    async createSetupLink(accountId, within) {
      const token = newToken()
      await (within ?? database)
        .withTables<AccountsTables>()
        .insertInto('setup_links')
        .values({ hash: hashToken(token), account_id: accountId, expires_at: sql<Date>`now() + interval '1 hour'` })
        .execute()
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
      const row = await tables(transaction)
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
