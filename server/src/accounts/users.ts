import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { createSetupLinks, type SetupLinks } from './setup-links.ts'
import type { AccountsTables } from './tables.ts'

export interface User {
  readonly id: string
  readonly accountId: string
  readonly email: string
  readonly createdAt: Date
}

/** Users and the setup links that create them. */
export interface Users extends SetupLinks {
  list(): Promise<User[]>
  /** True when there is at least one user. */
  any(): Promise<boolean>
  /** Returns a user with the hash of the password. */
  byEmail(email: string): Promise<(User & { readonly passwordHash: string }) | undefined>
  /** Returns `'taken'` when there is a user with this address. The transaction remains usable. */
  create(
    transaction: Transaction,
    user: { accountId: string; email: string; passwordHash: string },
  ): Promise<User | 'taken'>
  /** True when the password still has this hash. Locks the row until the end of the transaction. */
  hasPassword(transaction: Transaction, id: string, passwordHash: string): Promise<boolean>
  /** Changes a password that still has the hash `from`; false when it has not. */
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
