import type { Database } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import type { Tier } from '../platform/plans.ts'
import type { AccountsTables } from './tables.ts'

export interface Account {
  readonly id: string
  readonly name: string
  readonly plan: Tier
}

export interface Accounts {
  /** Makes the operator's account (tier `enterprise`) unless it is there; gives its id. */
  ensureOperator(): Promise<string>
  create(account: { name: string; plan: Tier }): Promise<Account>
  list(): Promise<Account[]>
  /** `undefined` when there is no such account. */
  update(id: string, changes: { name?: string; plan?: Tier }): Promise<Account | undefined>
  get(id: string): Promise<Account | undefined>
}

export function createAccounts({ database }: { database: Database }): Accounts {
  const db = database.withTables<AccountsTables>()
  const fields = ['id', 'name', 'plan'] as const

  return {
    async ensureOperator() {
      await db
        .insertInto('accounts')
        .values({ id: newId('account'), name: 'Operator', plan: 'enterprise', operator: true })
        .onConflict((conflict) => conflict.column('operator').where('operator', '=', true).doNothing())
        .execute()
      const { id } = await db.selectFrom('accounts').select('id').where('operator', '=', true).executeTakeFirstOrThrow()
      return id
    },

    create(account) {
      return db
        .insertInto('accounts')
        .values({ id: newId('account'), ...account })
        .returning(fields)
        .executeTakeFirstOrThrow()
    },

    list: () => db.selectFrom('accounts').select(fields).orderBy('id').execute(),

    update(id, changes) {
      return db.updateTable('accounts').set(changes).where('id', '=', id).returning(fields).executeTakeFirst()
    },

    get: (id) => db.selectFrom('accounts').select(fields).where('id', '=', id).executeTakeFirst(),
  }
}
