import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { createCertificateHealth } from '../../../server/src/features/certificates/status.ts'
import { type Database, openDatabase } from '../../../server/src/platform/database.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'

const cleanup = new AsyncDisposableStack()
let database: TestDatabase
let db: Database
beforeAll(async () => {
  database = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: database.url, max: 2 }, pino({ level: 'silent' }))
  cleanup.defer(handle.close)
  db = handle.db
  const operatorId = await createAccountStore({ database: db }).ensureOperator()
  await database.query(
    `insert into certificates (id, account_id, names, source, next_attempt_at)
     values ('cert_1', $1, '{a.example.net}', 'automatic', now() - interval '59 minutes')`,
    [operatorId],
  )
})
afterAll(() => cleanup.disposeAsync())

it('reports once in the log that certificates are due for over an hour without an attempt', async () => {
  const log: unknown[] = []
  const logger = { error: (...told: unknown[]) => void log.push(told) } as never
  const health = createCertificateHealth(db, logger, new Date(0))
  await health.check()
  expect([health.overdue(), health.problems(), log]).toEqual([0, [], []])
  await database.query("update certificates set next_attempt_at = now() - interval '61 minutes'")
  await health.check()
  await health.check()
  expect(health.overdue()).toBe(1)
  expect(health.problems()).toEqual(['1 certificate should have been obtained, renewed or revoked over an hour ago'])
  expect(log).toHaveLength(1)
  const begun = createCertificateHealth(db, logger, new Date())
  await begun.check()
  expect(begun.overdue(), 'of a server that has just begun').toBe(0)
  await database.query('update certificates set next_attempt_at = now()')
  await health.check()
  expect([health.overdue(), health.problems()]).toEqual([0, []])
})
