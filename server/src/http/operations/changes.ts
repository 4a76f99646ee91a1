import { DatabaseError } from 'pg'
import { connectionBudget } from '../../platform/database/connection-budget.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { nameRequest } from '../../platform/jobs.ts'
import type { SecretBox } from '../../platform/secrets/secret-box.ts'
import { createSlots } from '../../platform/slots.ts'
import type { Answer } from './answer.ts'
import { type Claim, createIdempotency } from './idempotency.ts'

/** Runs one change in one transaction, again when PostgreSQL ends it because of a deadlock. A change with an idempotency claim runs once, and its answer is stored. */
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
  // Each transaction holds a connection, so there are fewer of them than connections.
  const slots = createSlots(connectionBudget.requests.requests.concurrency)
  const idempotency = createIdempotency({ secrets })
  return ({ id, claim }, change) => {
    const transact = (inside: (transaction: Transaction) => Promise<Answer>) =>
      slots.use('requests', undefined, () =>
        againAfterDeadlock(() => database.transaction().execute((transaction) => inside(nameRequest(transaction, id)))),
      )
    return claim === undefined ? transact(change) : idempotency.once(claim, transact, change)
  }
}

const deadlockDetected = '40P01'
const mostAttempts = 5

/** PostgreSQL rolls one of the transactions back that wait for each other; the others go on, and then it can, too. */
async function againAfterDeadlock<Result>(transact: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await transact()
    } catch (error) {
      const isDeadlock = error instanceof DatabaseError && error.code === deadlockDetected
      if (!isDeadlock || attempt === mostAttempts) throw error
    }
  }
}
