import { DatabaseError } from 'pg'
import { expect, it } from 'vitest'
import { createRequestTransactions } from '../../../server/src/platform/database/request-transactions.ts'
import type { Database, Transaction } from '../../../server/src/platform/database.ts'

const errorOf = (code: string) => Object.assign(new DatabaseError('rolled back', 1, 'error'), { code })

/** Runs transactions on a database that ends them with these errors in order, and then commits. */
function transactionsWith(errors: Error[]) {
  const database = {
    transaction: () => ({
      async execute(inside: (transaction: Transaction) => Promise<unknown>) {
        const result = await inside({} as Transaction)
        const error = errors.shift()
        if (error !== undefined) throw error
        return result
      },
    }),
  } as unknown as Database
  return createRequestTransactions(database)
}

it('a transaction is retried after a deadlock', async () => {
  let made = 0
  const transact = transactionsWith([errorOf('40P01'), errorOf('40P01')])
  const result = await transact('a', async () => {
    made += 1
    return 'done'
  })
  expect([result, made]).toEqual(['done', 3])
})

it.each([
  [[errorOf('23505')], 1],
  [Array.from({ length: 9 }, () => errorOf('40P01')), 5],
])('other errors, and permanent deadlocks, fail the request: %#', async (errors, expected) => {
  let made = 0
  const transact = async () => {
    made += 1
  }
  await expect(transactionsWith(errors)('a', transact)).rejects.toThrow('rolled back')
  expect(made).toBe(expected)
})

it('accounts take turns, however many transactions one account has waiting', async () => {
  const transact = transactionsWith([])
  const order: string[] = []
  const request = (account: string) =>
    transact(account, async () => {
      order.push(account)
      await Promise.resolve()
    })
  await Promise.all([...Array.from({ length: 100 }, () => request('a')), request('b'), request('b')])
  const turns = order.flatMap((account, at) => (account === 'b' ? [at] : []))
  expect(order).toHaveLength(102)
  expect(Math.max(...turns)).toBeLessThan(20)
})
