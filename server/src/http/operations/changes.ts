import type { RequestTransactions } from '../../platform/database/request-transactions.ts'
import type { Transaction } from '../../platform/database.ts'
import { nameRequest } from '../../platform/jobs.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import type { Answer } from './answer.ts'
import { type Claim, createIdempotency } from './idempotency.ts'

/** Runs one change in one transaction. A change with an idempotency claim runs once, and its answer is stored. */
export type Changes = (
  request: { readonly id: string; readonly accountId: string; readonly claim: Claim | undefined },
  change: (transaction: Transaction) => Promise<Answer>,
) => Promise<Answer>

export interface ChangesDependencies {
  readonly transact: RequestTransactions
  /** Encrypts the stored answers. */
  readonly secrets: SecretBox
}

export function createChanges({ transact, secrets }: ChangesDependencies): Changes {
  const idempotency = createIdempotency({ secrets })
  return ({ id, accountId, claim }, change) => {
    const named = (inside: (transaction: Transaction) => Promise<Answer>) =>
      transact(accountId, (transaction) => inside(nameRequest(transaction, id)))
    return claim === undefined ? named(change) : idempotency.once(claim, named, change)
  }
}
