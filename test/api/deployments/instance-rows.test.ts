import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { createInstanceRows } from '../../../server/src/features/deployments/instance-rows.ts'
import { createJobTransitions } from '../../../server/src/features/deployments/rows.ts'
import type { DatabaseHandle } from '../../../server/src/platform/database.ts'
import { type DatabaseWithProject, databaseWithProject, type TestDatabase } from '../../harness/database.ts'

let given: DatabaseWithProject
let database: TestDatabase
let handle: DatabaseHandle
beforeAll(async () => {
  given = await databaseWithProject()
  database = given.database
  handle = given.handle
  await database.query("insert into apps (id, project_id, name, port) values ('app_1', 'proj_1', 'a', 20000)")
})
afterAll(() => given?.[Symbol.asyncDispose]())

const instance = (pid: number) => ({ runtime: 'process', data: { pid } })
const target = { id: 'dep_1', generation: 1 }

/** A release whose first instance is 1, with a second `web` instance, 2. */
beforeEach(async () => {
  await database.query('delete from deployments')
  await database.query(
    `insert into deployments
       (id, project_id, app_id, account_id, status, retained, generation, git_url, variables, variable_origins, triggered_by, runtime, instance)
     values ('dep_1', 'proj_1', 'app_1', 'acct_1', 'running', true, 1, 'https://example.com/a.git', '', '{"given": [], "plain": []}', '{"kind": "key"}', 'process', $1)`,
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

it('the first instance and the second one are replaced', async () => {
  expect([await replace(1, 11), await replace(2, 12)]).toEqual([true, true])
  expect(await known()).toEqual([instance(11), instance(12)])
})

it('an instance without a slot is not replaced, nor an instance of a release that may not run', async () => {
  expect(await replace(3, 13)).toBe(false)
  expect(await replace(1, 11, { ...target, generation: 2 })).toBe(false)
  await database.query("update deployments set status = 'stopped'")
  expect([await replace(1, 11), await replace(2, 12)]).toEqual([false, false])
  expect(await known()).toEqual([instance(1), instance(2)])
})

const rows = () => createInstanceRows({ database: handle.db })
const jobs = () => createJobTransitions({ database: handle.db, apps: { lock: async () => undefined } })
const first = (pid: number) => ({ ...target, instance: instance(pid) })

it('a state is recorded for an instance in its slot, and never for its successor', async () => {
  await replace(2, 12)
  expect(await rows().note('dep_1', instance(2), 'ended')).toBe(false)
  expect(await rows().note('dep_1', instance(12), 'running', instance(22))).toBe(true)
  expect(await rows().note('dep_1', instance(1), 'running', instance(11))).toBe(true)
  expect(await known()).toEqual([instance(11), instance(22)])
})

it('a restarting instance is not replaced', async () => {
  expect(await rows().note('dep_1', instance(2), 'ended')).toBe(true)
  expect(await replace(2, 12)).toBe(false)
  expect(await known()).toEqual([instance(1), instance(2)])
})

it('a restarted release keeps an instance that replaced the ended one', async () => {
  await replace(1, 11)
  expect(await jobs().setInstance(first(1), instance(21))).toBe(false)
  expect(await jobs().setInstance(first(11), instance(21))).toBe(true)
  expect(await known()).toEqual([instance(21), instance(2)])
  await database.query('update deployments set instance = null')
  expect(await jobs().setInstance({ ...target, instance: null }, instance(31))).toBe(true)
})

it('a release does not fail because of a replaced instance', async () => {
  await replace(1, 11)
  const failure = { stage: 'run', code: 'crash_loop', message: 'It ended.' } as const
  const row = { ...target, app_id: 'app_1', status: 'running' } as const
  const fail = (only: number) =>
    handle.db.transaction().execute((trx) => jobs().fail(trx, row, failure, { instance: instance(only) }))
  expect(await fail(1)).toBe(false)
  expect(await known()).toEqual([instance(11), instance(2)])
  expect(await fail(11)).toBe(true)
})

it('an instance becomes the first only while both instances of the choice have their slots', async () => {
  const [second] = await rows().of('dep_1')
  if (second === undefined) throw new Error('it has a row')
  await replace(2, 12)
  expect(await rows().promote(first(1), second)).toBeNull()
  await replace(1, 11)
  const successor = { ...second, handle: instance(12) }
  expect(await rows().promote(first(1), successor)).toBeNull()
  expect(await known()).toEqual([instance(11), instance(12)])
  expect(await rows().promote(first(11), successor)).toMatchObject({ instance: instance(12) })
  expect(await known()).toEqual([instance(12)])
})
