import { afterAll, beforeAll, expect, it } from 'vitest'
import { createProjectReads } from '../../../server/src/features/deployments/reads.ts'
import type { DatabaseHandle } from '../../../server/src/platform/database.ts'
import { type DatabaseWithProject, databaseWithProject, type TestDatabase } from '../../harness/database.ts'

let given: DatabaseWithProject
let database: TestDatabase
let handle: DatabaseHandle
beforeAll(async () => {
  given = await databaseWithProject()
  database = given.database
  handle = given.handle
})
afterAll(() => given?.[Symbol.asyncDispose]())

/** Adds a building deployment of the app with this number. */
async function add(id: string, app: number, given: { begun: boolean; before?: number }): Promise<void> {
  await database.query(
    `insert into apps (id, project_id, name, port) values ($1::text, 'proj_1', $1::text, $2) on conflict do nothing`,
    [`app_${app}`, 20_000 + app],
  )
  await database.query(
    `insert into deployments
       (id, project_id, app_id, account_id, status, retained, generation, git_url, variables, variable_origins, triggered_by, runtime, started_at, builds_before)
     values ($1, 'proj_1', $2, 'acct_1', 'building', false, $5, 'https://example.com/a.git', '', '{"given": [], "plain": []}', '{"kind": "key"}', 'process', $3, $4)`,
    [id, `app_${app}`, given.begun ? new Date() : null, given.before ?? null, Number(id.slice(4))],
  )
}

it('a deployment without a slot in the queue follows all waiting deployments', async () => {
  const reads = createProjectReads({ database: handle.db })
  const expected = async (id: string) => (await reads.get(handle.db, 'proj_1', id))?.expected_builds_before
  await add('dep_1', 1, { begun: true })
  await add('dep_3', 3, { begun: false })
  expect(await expected('dep_3')).toBeNull()
  await add('dep_2', 2, { begun: true, before: 1 })
  expect(await expected('dep_3')).toBe(2)
  await add('dep_4', 4, { begun: false })
  expect(await expected('dep_4')).toBe(3)
  await add('dep_5', 1, { begun: false })
  expect(await expected('dep_5'), 'of an app that builds').toBe(1)
  expect(await expected('dep_1'), 'that has begun').toBeNull()
})
