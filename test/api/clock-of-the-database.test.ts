import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { createAccountStore } from '../../server/src/features/accounts/accounts.ts'
import { createKeys } from '../../server/src/features/accounts/keys.ts'
import { presets } from '../../server/src/features/accounts/scopes.ts'
import { explain } from '../../server/src/features/certificates/acme/errors.ts'
import { fail } from '../../server/src/features/certificates/attempt.ts'
import { runHandlers } from '../../server/src/features/runs/runs.ts'
import { type DatabaseHandle, openDatabase } from '../../server/src/platform/database.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { bringJobsForward, enqueue } from '../../server/src/platform/jobs.ts'
import { createSecretBox } from '../../server/src/platform/secrets.ts'
import { type TestDatabase, testDatabase } from '../harness/database.ts'

/* Times that the database compares with its clock, on a server whose clock differs by an hour. */

const hourMs = 3_600_000
let test: TestDatabase
let handle: DatabaseHandle
let accountId: string
beforeAll(async () => {
  test = await testDatabase()
  handle = openDatabase({ connectionString: test.url, max: 2 }, pino({ level: 'silent' }))
  accountId = await createAccountStore({ database: handle.db }).ensureOperator()
})
afterAll(async () => {
  await handle.close()
  await test[Symbol.asyncDispose]()
})

/** Returns the seconds from now to the only value of a column, by the clock of the database. */
async function secondsUntil(column: string, table: string): Promise<number> {
  const [row] = await test.query<{ seconds: number }>(
    `select extract(epoch from ${column} - now())::float8 as seconds from ${table} where ${column} is not null`,
  )
  return row?.seconds ?? Number.NaN
}

const removeJobs = () =>
  test.query('select graphile_worker.complete_jobs(array_agg(id)) from graphile_worker.jobs having count(*) > 0')

it('a job that waits for a later time comes forward when the clock is set back, and a due job stays due', async () => {
  const secondsByTask = () =>
    test.query<{ task: string; seconds: number }>(
      `select task_identifier as task, extract(epoch from run_at - now())::float8 as seconds
       from graphile_worker.jobs order by task`,
    )
  await removeJobs()
  await enqueue(handle.db, { task: 'due', payload: {} })
  await enqueue(handle.db, { task: 'later', payload: {}, runAt: new Date(Date.now() + 2 * hourMs) })
  await bringJobsForward(handle.db, hourMs)
  const [due, later] = await secondsByTask()
  expect(due?.seconds).toBeLessThan(-hourMs / 1000)
  expect(later?.seconds).toBeCloseTo(hourMs / 1000, -2)
})

describe.each([
  ['behind', -hourMs],
  ['ahead', hourMs],
])('with a clock that is %s,', (_, ms) => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms }))
  afterEach(() => void vi.useRealTimers())

  it('a key has its full lifetime', async () => {
    await test.query('delete from api_keys')
    const options = { accountId, name: 'k', scopes: presets.full, projectIds: null, lifeMs: 600_000 }
    await createKeys({ database: handle.db }).create(options)
    expect(await secondsUntil('expires_at', 'api_keys')).toBeCloseTo(600, -2)
  })

  it('a client has a minute to connect to its command', async () => {
    await test.query('delete from projects')
    const [project, app] = [newId('project'), newId('app')]
    await test.query(
      `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
      [project, accountId],
    )
    await test.query(`insert into apps (id, project_id, name, port) values ($1, $2, 'a', 20000)`, [app, project])
    const handlers = runHandlers({
      database: handle.db,
      totals: { assertRoom: async () => undefined },
      assertApp: async () => undefined,
    })
    await handle.db.transaction().execute((transaction) =>
      handlers['runs.create']({
        ...{ transaction, params: { project_id: project, app_id: app }, body: { command: ['true'] } },
        ...{ project: { id: project, accountId }, principal: { credentialId: null }, note: () => undefined },
      } as unknown as Parameters<(typeof handlers)['runs.create']>[0]),
    )
    expect(await secondsUntil('ticket_expires_at', 'runs')).toBeCloseTo(60, -1.5)
    await test.query('delete from apps')
  })

  it('a job runs at its time', async () => {
    await removeJobs()
    await enqueue(handle.db, { task: 'later', payload: {}, runAt: new Date(Date.now() + 600_000) })
    expect(await secondsUntil('run_at', 'graphile_worker.jobs')).toBeCloseTo(600, -2)
  })

  it('an authority is asked again after the wait, not at once', async () => {
    await test.query('delete from certificates')
    const id = newId('certificate')
    await test.query(
      `insert into certificates (id, names, account_id, source, next_attempt_at, is_under_way)
       values ($1, '{a.example.net}', $2, 'automatic', now(), true)`,
      [id, accountId],
    )
    const dependencies = {
      ...{ database: handle.db, announce: async () => undefined, secrets: createSecretBox(Buffer.alloc(32)) },
      logger: pino({ level: 'silent' }),
    }
    await fail(dependencies, id, explain(new Error('refused')))
    expect(await secondsUntil('next_attempt_at', 'certificates')).toBeCloseTo(60, -1.5)
  })
})
