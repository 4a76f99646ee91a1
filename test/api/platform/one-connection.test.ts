import { pino } from 'pino'
import { expect, it } from 'vitest'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { testDatabase } from '../../harness/database.ts'
import '../../harness/one-connection.ts'

it('tests refuse a transaction that asks the pool for another connection, even when the pool has free ones', async () => {
  await using database = await testDatabase()
  const { db, pool, close } = openDatabase({ connectionString: database.url, max: 4 }, pino({ level: 'silent' }))
  const read = () => pool.query('select 1')
  try {
    const within = db.transaction().execute(async () => read())
    await expect(within).rejects.toThrow('second connection')
    await read()
    let after: Promise<unknown> | undefined
    const ended = Promise.withResolvers<void>()
    await db.transaction().execute(async () => {
      after = ended.promise.then(read)
    })
    ended.resolve()
    await after
  } finally {
    await close()
  }
})
