import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { createInstanceRows } from '../../../server/src/deployments/state/instances.ts'
import { type DatabaseHandle, openDatabase } from '../../../server/src/platform/database.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'

let database: TestDatabase
let handle: DatabaseHandle
beforeAll(async () => {
  database = await testDatabase()
  handle = openDatabase({ connectionString: database.url, max: 1 }, pino({ level: 'silent' }))
  await database.query("insert into accounts (id, name, plan) values ('acct_1', 'a', 'free')")
  await database.query(
    `insert into projects (id, account_id, name, region, plan, status)
     values ('proj_1', 'acct_1', 'p', 'local', 'free', 'active')`,
  )
  await database.query("insert into apps (id, project_id, name, port) values ('app_1', 'proj_1', 'a', 20000)")
})
afterAll(async () => {
  await handle.close()
  await database[Symbol.asyncDispose]()
})

const instance = (pid: number) => ({ runtime: 'process', data: { pid } })
const target = { id: 'dep_1', generation: 1 }

/** A release whose first instance is 1, with another one of `web`, which is 2. */
beforeEach(async () => {
  await database.query('delete from deployments')
  await database.query(
    `insert into deployments
       (id, project_id, app_id, account_id, status, retained, generation, git_url, variables, runtime, instance)
     values ('dep_1', 'proj_1', 'app_1', 'acct_1', 'running', true, 1, 'https://example.com/a.git', '', 'process', $1)`,
    [JSON.stringify(instance(1))],
  )
  await createInstanceRows({ database: handle.db }).started(target, { type: 'web', number: 2 }, instance(2))
})

const known = async () => {
  const [{ instance: first } = {}] = await database.query<{ instance?: object }>('select instance from deployments')
  const others = await createInstanceRows({ database: handle.db }).of('dep_1')
  return [first, ...others.map((other) => other.handle)]
}
const replace = (old: number, by: number, of = target) =>
  createInstanceRows({ database: handle.db }).replace(of, instance(old), instance(by))

it('the first instance and another one are replaced', async () => {
  expect([await replace(1, 11), await replace(2, 12)]).toEqual([true, true])
  expect(await known()).toEqual([instance(11), instance(12)])
})

it('an instance that has no place any more is not replaced, nor is one of a release that may not run', async () => {
  expect(await replace(3, 13)).toBe(false)
  expect(await replace(1, 11, { ...target, generation: 2 })).toBe(false)
  await database.query("update deployments set status = 'stopped'")
  expect([await replace(1, 11), await replace(2, 12)]).toEqual([false, false])
  expect(await known()).toEqual([instance(1), instance(2)])
})
