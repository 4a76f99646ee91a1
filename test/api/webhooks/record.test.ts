import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type AttemptRecord, createRecorder, type Recorder } from '../../../server/src/features/webhooks/record.ts'
import { type DatabaseHandle, openDatabase } from '../../../server/src/platform/database.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'

let database: TestDatabase
let handle: DatabaseHandle
beforeAll(async () => {
  database = await testDatabase()
  handle = openDatabase({ connectionString: database.url, max: 1 }, pino({ level: 'silent' }))
  await database.query("insert into accounts (id, name, plan) values ('acct_1', 'a', 'free')")
  await database.query(
    `insert into webhooks (id, account_id, url, events, status, secret) values ('wh_1', 'acct_1', 'http://a', '{*}', 'enabled', '')`,
  )
  await database.query("insert into events (id, account_id, type, body) values ('evt_1', 'acct_1', 'ping', '{}')")
})
afterAll(async () => {
  await handle.close()
  await database[Symbol.asyncDispose]()
})

const refuse = 'alter table webhook_attempts add constraint refuses check (false)'
const accept = 'alter table webhook_attempts drop constraint if exists refuses'

let refused: Promise<void>
let recorder: Recorder
beforeEach(async () => {
  await database.query('delete from webhook_attempts')
  await database.query(accept)
  await database.query('delete from deliveries')
  await database.query(
    "insert into deliveries (id, webhook_id, event_id, status, next_attempt_at) values ('dlv_1', 'wh_1', 'evt_1', 'pending', now())",
  )
  const warned = Promise.withResolvers<void>()
  refused = warned.promise
  const logger = pino({ level: 'warn' }, { write: () => warned.resolve() })
  recorder = createRecorder({ database: handle.db, logger })
})

const attempt: AttemptRecord = {
  deliveryId: 'dlv_1',
  webhookId: 'wh_1',
  round: 1,
  at: new Date(),
  durationMs: 5,
  url: 'http://a',
  requestHeaders: {},
  result: { ok: true, answer: { status: 204, headers: {}, body: '' }, error: null },
  next: { status: 'succeeded' },
}

const recorded = () =>
  database.query('select status, attempts, (select count(*)::int from webhook_attempts) as written from deliveries')

it('an attempt whose write is refused counts as recorded only once it is written', async () => {
  await database.query(refuse)
  const recording = recorder.record(attempt)
  await Promise.race([refused, recording])
  expect(await recorded()).toEqual([{ status: 'pending', attempts: 0, written: 0 }])
  await database.query(accept)
  expect(await recording).toEqual({ sendAgain: false })
  expect(await recorded()).toEqual([{ status: 'succeeded', attempts: 1, written: 1 }])
})

it('an attempt that is not written before the server stops is not recorded, and says so', async () => {
  await database.query(refuse)
  const recording = recorder.record(attempt)
  const outcome = recording.then(
    () => 'recorded',
    (error: Error) => error.message,
  )
  await Promise.race([refused, recording.catch(() => undefined)])
  recorder.stop()
  expect(await outcome).toBe('the server is stopping')
  expect(await recorded()).toEqual([{ status: 'pending', attempts: 0, written: 0 }])
})
