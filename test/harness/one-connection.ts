import { AsyncLocalStorage } from 'node:async_hooks'
import { TransactionBuilder } from 'kysely'
import { Pool } from 'pg'

/*
 * A transaction must not ask its pool for a second connection. Otherwise transactions that wait for a lock of this
 * transaction may hold all connections, and it would wait for them. This module makes such a query reject. Pools of
 * other servers are exempt.
 */

interface Held {
  isOpen: boolean
  /** The pool of the transaction's connection, once it has a connection. */
  pool: Pool | undefined
  /** The surrounding transaction. */
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

/** True while this transaction, or a surrounding one, has a connection of this pool. */
function isOpenIn(held: Held | undefined, pool: Pool): boolean {
  if (held === undefined) return false
  return (held.isOpen && held.pool === pool) || isOpenIn(held.outer, pool)
}
