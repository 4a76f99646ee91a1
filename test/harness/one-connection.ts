import { AsyncLocalStorage } from 'node:async_hooks'
import { TransactionBuilder } from 'kysely'
import { Pool } from 'pg'

/*
 * Within a transaction nothing may ask its pool for another connection: transactions that wait for a lock of this one may have all
 * connections, so that it would wait for them. Where this module is loaded, such a query rejects. The pool of another server is not meant.
 */

interface Held {
  isOpen: boolean
  /** The pool of the transaction's connection, once it has one. */
  pool: Pool | undefined
  /** The transaction in which this one begins. */
  readonly outer: Held | undefined
}

const transactions = new AsyncLocalStorage<Held>()

const { execute } = TransactionBuilder.prototype
TransactionBuilder.prototype.execute = function <Result>(this: TransactionBuilder<unknown>, work: Work<Result>) {
  const held: Held = { isOpen: false, pool: undefined, outer: transactions.getStore() }
  return transactions.run(held, () =>
    execute.call(this, (transaction) => {
      held.isOpen = true
      return work(transaction).finally(() => {
        held.isOpen = false
      })
    }),
  ) as Promise<Result>
}

type Work<Result> = (transaction: Parameters<Parameters<typeof execute>[0]>[0]) => Promise<Result>

type Connected = (error: Error | undefined, client: undefined, done: () => void) => void

const connect = Pool.prototype.connect as (this: Pool, connected?: Connected) => unknown
Pool.prototype.connect = function (this: Pool, connected?: Connected) {
  const held = transactions.getStore()
  if (held !== undefined) held.pool ??= this
  if (!isOpenIn(held, this)) return connect.call(this, connected)
  const error = new Error('a transaction needs a second connection: give the transaction to what asks the database')
  return connected === undefined ? Promise.reject(error) : connected(error, undefined, () => {})
} as typeof Pool.prototype.connect

/** True while a transaction, or one around it, has a connection of this pool. */
function isOpenIn(held: Held | undefined, pool: Pool): boolean {
  if (held === undefined) return false
  return (held.isOpen && held.pool === pool) || isOpenIn(held.outer, pool)
}
