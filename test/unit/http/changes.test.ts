import { randomBytes } from 'node:crypto'
import { DatabaseError } from 'pg'
import { expect, it } from 'vitest'
import type { Answer } from '../../../server/src/http/operations/answer.ts'
import { createChanges } from '../../../server/src/http/operations/changes.ts'
import type { Database } from '../../../server/src/platform/database.ts'
import { createSecretBox } from '../../../server/src/platform/secrets/secret-box.ts'

const errorOf = (code: string) => Object.assign(new DatabaseError('rolled back', 1, 'error'), { code })
const done = { status: 200 } as unknown as Answer

/** Makes changes on a database whose transactions end with these errors, one after the other, and then succeed. */
function changesWith(errors: Error[]) {
  const transaction = { withPlugin: () => transaction }
  const database = {
    transaction: () => ({
      async execute(inside: (within: typeof transaction) => Promise<Answer>) {
        const answer = await inside(transaction)
        const error = errors.shift()
        if (error !== undefined) throw error
        return answer
      },
    }),
  } as unknown as Database
  return createChanges({ database, secrets: createSecretBox(randomBytes(32)) })
}

it('a change that a deadlock has ended is made again', async () => {
  let made = 0
  const changes = changesWith([errorOf('40P01'), errorOf('40P01')])
  const answer = await changes({ id: 'request', claim: undefined }, async () => {
    made += 1
    return done
  })
  expect([answer, made]).toEqual([done, 3])
})

it.each([
  [[errorOf('23505')], 1],
  [Array.from({ length: 9 }, () => errorOf('40P01')), 5],
])('other errors, and deadlocks that do not end, are those of the request: %#', async (errors, expected) => {
  let made = 0
  const change = async () => {
    made += 1
    return done
  }
  await expect(changesWith(errors)({ id: 'request', claim: undefined }, change)).rejects.toThrow('rolled back')
  expect(made).toBe(expected)
})
