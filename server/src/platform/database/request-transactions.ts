import { DatabaseError } from 'pg'
import type { Database, Transaction } from '../database.ts'
import { createSlots } from '../slots.ts'
import { connectionBudget } from './connection-budget.ts'

/**
 * Runs `transact` in a transaction for a request of an account, again when PostgreSQL ends it because of a deadlock. Accounts take turns,
 * however many requests each of them has. The transaction must not wait for a client.
 */
export type RequestTransactions = <Result>(
  accountId: string,
  transact: (transaction: Transaction) => Promise<Result>,
) => Promise<Result>

export function createRequestTransactions(database: Database): RequestTransactions {
  // Each transaction holds a connection, so there are fewer of them than connections: reads would wait behind all that are queued.
  const slots = createSlots(connectionBudget.requests.requests.concurrency)
  return (accountId, transact) =>
    slots.use(accountId, undefined, () => againAfterDeadlock(() => database.transaction().execute(transact)))
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
