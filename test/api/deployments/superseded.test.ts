import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import {
  bringBackSuperseded,
  createJobTransitions,
  giveUpSuperseded,
  supersedeWaiting,
} from '../../../server/src/features/deployments/rows.ts'
import { type DeploymentRow, tablesOf } from '../../../server/src/features/deployments/tables.ts'
import type { DatabaseHandle, Transaction } from '../../../server/src/platform/database.ts'
import { type DatabaseWithProject, databaseWithProject, type TestDatabase } from '../../harness/database.ts'

let given: DatabaseWithProject
let database: TestDatabase
let handle: DatabaseHandle
let generation: number
beforeAll(async () => {
  given = await databaseWithProject()
  database = given.database
  handle = given.handle
  await database.query("insert into apps (id, project_id, name, port) values ('app_1', 'proj_1', 'a', 20000)")
})
afterAll(() => given?.[Symbol.asyncDispose]())
beforeEach(async () => {
  await database.query('delete from deployments')
  generation = 0
  await create('begun')
  await begin('begun')
})

const app = { app_id: 'app_1' }
const inTransaction = <T>(work: (transaction: Transaction) => Promise<T>) => handle.db.transaction().execute(work)

/** Creates a deployment, which supersedes the waiting one. */
async function create(id: string): Promise<void> {
  generation += 1
  await inTransaction((transaction) => supersedeWaiting(transaction, { id, appId: app.app_id }))
  await database.query(
    `insert into deployments
       (id, project_id, app_id, account_id, status, retained, generation, git_url, git_token, variables, variable_origins, triggered_by, runtime)
     values ($1, 'proj_1', 'app_1', 'acct_1', 'building', false, $2, 'https://example.com/a.git', 'token', '', '{"given": [], "plain": []}', '{"kind": "key"}', 'process')`,
    [id, generation],
  )
}

const begin = (id: string) => database.query('update deployments set started_at = now() where id = $1', [id])

const rowOf = (id: string): Promise<DeploymentRow> =>
  tablesOf(handle.db).selectFrom('deployments').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

/** Cancels a deployment. A failure has the same effect. */
const cancel = (id: string) =>
  inTransaction(async (transaction) => {
    await tablesOf(transaction).updateTable('deployments').set({ status: 'canceled' }).where('id', '=', id).execute()
    await bringBackSuperseded(transaction, { countBuilding: async () => 1 }, { id, ...app })
  })

async function run(id: string): Promise<{ ok: boolean; previous: string | undefined }> {
  const jobs = createJobTransitions({ database: handle.db, apps: { lock: async () => undefined } })
  const plan = { kind: 'node', build: [], start: { argv: ['node', 'a.js'] } } as const
  const row = await rowOf(id)
  const facts = { plan, instance: { runtime: 'process', data: {} } }
  const { ok, previous } = await inTransaction((transaction) => jobs.run(transaction, row, facts))
  return { ok, previous: previous?.id }
}

/** Returns the waiting and building deployments, oldest first. */
const building = async () =>
  (
    await database.query<{ id: string }>("select id from deployments where status = 'building' order by generation")
  ).map(({ id }) => id)

it('a superseded deployment waits again, with its token, when the newer deployment ends without having served', async () => {
  await create('old')
  await create('new')
  expect(await building()).toEqual(['begun', 'new'])
  await cancel('new')
  expect(await building()).toEqual(['begun', 'old'])
  expect(await rowOf('old')).toMatchObject({ git_token: Buffer.from('token'), finished_at: null, superseded_by: null })
  expect(await database.query(`select 1 from graphile_worker.jobs where key = 'deployment old'`)).toHaveLength(1)
})

it('of several deployments that superseded each other, the latest live one returns', async () => {
  await create('old')
  await create('newer')
  await create('newest')
  await cancel('newest')
  expect(await building()).toEqual(['begun', 'newer'])
  await cancel('newer')
  expect(await building()).toEqual(['begun', 'old'])
})

it('a superseded deployment gives way to a third that was created before the second ended', async () => {
  await create('old')
  await create('second')
  await begin('second')
  await create('third')
  await cancel('second')
  expect(await building()).toEqual(['begun', 'third'])
  await cancel('third')
  expect(await building()).toEqual(['begun', 'old'])
})

it('of several deployments superseded by one, the newest returns first, and the others after it', async () => {
  await create('a')
  await create('b')
  await begin('b')
  await create('x')
  await create('c')
  await cancel('b')
  await cancel('c')
  expect(await building()).toEqual(['begun', 'x'])
  await cancel('x')
  expect(await building()).toEqual(['begun', 'a'])
})

it('a superseded deployment loses its token and never returns once a newer deployment has served', async () => {
  await create('old')
  await create('new')
  await run('new')
  await cancel('new')
  expect(await building()).toEqual(['begun'])
  expect((await rowOf('old')).git_token).toBe(null)
})

it('a superseded deployment does not return after a rollback', async () => {
  await create('old')
  await create('new')
  await inTransaction((transaction) => giveUpSuperseded(transaction, app))
  await cancel('new')
  expect(await building()).toEqual(['begun'])
})
