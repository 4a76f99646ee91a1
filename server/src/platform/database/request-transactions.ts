import { DatabaseError } from 'pg'
import type { Database, Transaction } from '../database.ts'
import { createSlots } from '../slots.ts'
import { connectionBudget } from './connection-budget.ts'

/**
 * Runs `transact` in a transaction for a request of an account, and repeats it after a deadlock. Accounts take turns,
 * however many requests each account has. The transaction must not wait for a client.
 */
export type RequestTransactions = <Result>(
  accountId: string,
  transact: (transaction: Transaction) => Promise<Result>,
) => Promise<Result>

export function createRequestTransactions(database: Database): RequestTransactions {
  // Each transaction holds a connection. There are fewer slots than connections, so reads do not wait behind the queue.
  const slots = createSlots(connectionBudget.requests.requests.concurrency)
  return (accountId, transact) =>
    slots.use(accountId, undefined, () => againAfterDeadlock(() => database.transaction().execute(transact)))
}

const deadlockDetected = '40P01'
const mostAttempts = 5

/** PostgreSQL rolls back one transaction of a deadlock. The others continue, and then a new attempt can succeed. */
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
