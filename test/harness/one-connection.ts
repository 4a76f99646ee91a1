import { AsyncLocalStorage } from 'node:async_hooks'
import { TransactionBuilder } from 'kysely'
import { Pool } from 'pg'

/*
 * Within a transaction nothing may ask the pool for another connection: transactions that wait for a lock of this one may have all
 * connections, so that it would wait for them. Where this module is loaded, such a query rejects.
 */

const transactions = new AsyncLocalStorage<{ isOpen: boolean }>()

const { execute } = TransactionBuilder.prototype
TransactionBuilder.prototype.execute = function <Result>(this: TransactionBuilder<unknown>, work: Work<Result>) {
  return execute.call(this, (transaction) => {
    const held = { isOpen: true }
    return transactions.run(held, () =>
      work(transaction).finally(() => {
        held.isOpen = false
      }),
    )
  }) as Promise<Result>
}

type Work<Result> = (transaction: Parameters<Parameters<typeof execute>[0]>[0]) => Promise<Result>

type Connected = (error: Error | undefined, client: undefined, done: () => void) => void

const connect = Pool.prototype.connect as (this: Pool, connected?: Connected) => unknown
Pool.prototype.connect = function (this: Pool, connected?: Connected) {
  if (transactions.getStore()?.isOpen !== true) return connect.call(this, connected)
  const error = new Error('a transaction needs a second connection: give the transaction to what asks the database')
  return connected === undefined ? Promise.reject(error) : connected(error, undefined, () => {})
} as typeof Pool.prototype.connect
