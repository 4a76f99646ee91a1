import { sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'

/** How long an answer is stored for repetitions of its request. */
const keptHours = 24

/** Identifies a stored answer. */
export interface KeyId {
  readonly accountId: string
  readonly operation: string
  readonly key: string
}

type IdempotencyTables = {
  idempotency_keys: { account_id: string; operation: string; key: string; answer: Buffer | null; created_at: Date }
}

/**
 * Inserts the key, or takes over an expired one. Returns true when this transaction now owns it, false when another
 * request used it before. Waits for a concurrent transaction that has just inserted it.
 */
export async function takeKey(transaction: Transaction, { accountId, operation, key }: KeyId): Promise<boolean> {
  const { rows } = await sql`
    insert into idempotency_keys (account_id, operation, key) values (${accountId}, ${operation}, ${key})
    on conflict (account_id, operation, key) do update set answer = null, created_at = now()
      where idempotency_keys.created_at <= now() - make_interval(hours => ${keptHours})
    returning key`.execute(transaction)
  return rows.length > 0
}

export async function storeAnswer(transaction: Transaction, id: KeyId, answer: Buffer): Promise<void> {
  await transaction
    .withTables<IdempotencyTables>()
    .updateTable('idempotency_keys')
    .set({ answer })
    .where('account_id', '=', id.accountId)
    .where('operation', '=', id.operation)
    .where('key', '=', id.key)
    .execute()
}

/** Returns the answer that was stored under a key. Throws when there is none: key and answer are one transaction. */
export async function storedAnswer(transaction: Transaction, id: KeyId): Promise<Buffer> {
  const { answer } = await transaction
    .withTables<IdempotencyTables>()
    .selectFrom('idempotency_keys')
    .select('answer')
    .where('account_id', '=', id.accountId)
    .where('operation', '=', id.operation)
    .where('key', '=', id.key)
    .executeTakeFirstOrThrow()
  if (answer === null) throw new Error('an idempotency key was committed without its answer')
  return answer
}

/** Removes expired keys. */
export async function forgetIdempotencyKeys(database: Database): Promise<void> {
  // An hour later than they expire, so that a repetition in progress still finds its row.
  const hours = keptHours + 1
  await sql`delete from idempotency_keys where created_at <= now() - make_interval(hours => ${hours})`.execute(database)
}
