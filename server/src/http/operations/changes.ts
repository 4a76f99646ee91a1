import pLimit from 'p-limit'
import type { Database, Transaction } from '../../platform/database.ts'
import { nameRequest } from '../../platform/jobs.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import type { Answer } from './answer.ts'
import { type Claim, createIdempotency } from './idempotency.ts'

/**
 * The most transactions of requests at a time. Each holds a connection, and a handler may need a second one for a moment:
 * the rest of the pool stays free for that, or transactions would wait for each other for ever. Each lane of jobs also
 * holds one connection to listen on.
 */
const mostTransactions = 10

/** Runs one change in one transaction. A change with an idempotency claim runs once, and its answer is stored. */
export type Changes = (
  request: { readonly id: string; readonly claim: Claim | undefined },
  change: (transaction: Transaction) => Promise<Answer>,
) => Promise<Answer>

export interface ChangesDependencies {
  readonly database: Database
  /** Encrypts the stored answers. */
  readonly secrets: SecretBox
}

export function createChanges({ database, secrets }: ChangesDependencies): Changes {
  const slots = pLimit(mostTransactions)
  const idempotency = createIdempotency({ secrets })
  return ({ id, claim }, change) => {
    const transact = (inside: (transaction: Transaction) => Promise<Answer>) =>
      slots(() => database.transaction().execute((transaction) => inside(nameRequest(transaction, id))))
    return claim === undefined ? transact(change) : idempotency.once(claim, transact, change)
  }
}
