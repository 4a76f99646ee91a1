import { sql } from 'kysely'
import type { ResponseBody } from '../../contract/operations.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { type Plans, requestsPerHour, type Tier } from '../../platform/plans.ts'
import type { AccountsTables } from './tables.ts'

export interface Account {
  readonly id: string
  readonly name: string
  readonly plan: Tier
  /** Overrides the rate limit of the plan; `null` for the plan's limit. */
  readonly requestsPerHour: number | null
}

export type AccountChanges = Partial<Omit<Account, 'id'>>

export interface AccountStore {
  /** Creates the operator's account (tier `enterprise`) if it does not exist, and returns its id. */
  ensureOperator(): Promise<string>
  create(account: { name: string; plan: Tier; requestsPerHour?: number | null }): Promise<Account>
  list(): Promise<Account[]>
  /** Returns `undefined` when there is no such account. */
  update(id: string, changes: AccountChanges): Promise<Account | undefined>
  /** Pass the transaction inside a transaction: the query then needs no second connection. */
  get(id: string, within?: Database | Transaction): Promise<Account | undefined>
}

const fields = ['id', 'name', 'plan', 'requests_per_hour as requestsPerHour'] as const

export function createAccountStore({ database }: { database: Database }): AccountStore {
  const db = database.withTables<AccountsTables>()

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

    create({ name, plan, requestsPerHour = null }) {
      return db
        .insertInto('accounts')
        .values({ id: newId('account'), name, plan, requests_per_hour: requestsPerHour })
        .returning(fields)
        .executeTakeFirstOrThrow()
    },

    list: () => db.selectFrom('accounts').select(fields).orderBy('id').execute(),

    update(id, { requestsPerHour, ...changes }) {
      return db
        .updateTable('accounts')
        .set({ ...changes, ...(requestsPerHour === undefined ? {} : { requests_per_hour: requestsPerHour }) })
        .where('id', '=', id)
        .returning(fields)
        .executeTakeFirst()
    },

    get: (id, within) =>
      (within ?? database)
        .withTables<AccountsTables>()
        .selectFrom('accounts')
        .select(fields)
        .where('id', '=', id)
        .executeTakeFirst(),
  }
}

/** Returns the tier of an account; `free` when there is no such account. */
export async function tierOf(on: Database | Transaction, accountId: string): Promise<Tier> {
  const account = on.withTables<AccountsTables>().selectFrom('accounts').select('plan').where('id', '=', accountId)
  return (await account.executeTakeFirst())?.plan ?? 'free'
}

export async function describeAccount(
  { database, plans }: { readonly database: Database; readonly plans: Plans },
  accountId: string,
): Promise<ResponseBody<'account.get'>> {
  const row = await database
    .withTables<AccountsTables>()
    .selectFrom('accounts')
    .leftJoin('rate_windows', (join) =>
      join.onRef('account_id', '=', 'accounts.id').on('started_at', '>', sql<Date>`now() - interval '1 hour'`),
    )
    .select(['id', 'name', 'plan', 'requests_per_hour', 'used', 'started_at'])
    .where('id', '=', accountId)
    .executeTakeFirstOrThrow()
  const limit = row.requests_per_hour ?? requestsPerHour(plans, row.plan)
  // Refused requests are counted until the server notices, so the counter can exceed the limit.
  const used = Math.min(limit, Number(row.used ?? 0))
  const reset = row.started_at === null ? null : Math.ceil(row.started_at.getTime() / 1000) + 3600
  return { id: row.id, name: row.name, plan: row.plan, rate_limit: { limit, used, remaining: limit - used, reset } }
}
