import pLimit from 'p-limit'
import type { Database, Transaction } from '../platform/database.ts'
import { nameRequest } from '../platform/jobs.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import type { Answer } from './answer.ts'
import { type Claim, createIdempotency } from './idempotency.ts'

/**
 * Each holds a connection, and what is called in it may need another one for a moment. So that they never wait for each
 * other, a part of the pool stays free for that; the lanes of jobs keep one each to listen on.
 */
const mostTransactions = 10

/** Runs one change in one transaction; a change with a claim is done once and remembered. */
export type Changes = (
  request: { readonly id: string; readonly claim: Claim | undefined },
  work: (transaction: Transaction) => Promise<Answer>,
) => Promise<Answer>

export function createChanges(dependencies: { readonly database: Database; readonly secrets: SecretBox }): Changes {
  const places = pLimit(mostTransactions)
  const idempotency = createIdempotency(dependencies)
  return ({ id, claim }, work) => {
    const transact = (inside: (transaction: Transaction) => Promise<Answer>) =>
      places(() => dependencies.database.transaction().execute((transaction) => inside(nameRequest(transaction, id))))
    return claim === undefined ? transact(work) : idempotency.once(claim, transact, work)
  }
}
