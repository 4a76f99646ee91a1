import { expect, it } from 'vitest'
import { migrate } from '../../../server/src/platform/database.ts'
import { migrations } from '../../../server/src/platform/migrations/index.ts'
import { databaseBefore } from '../../harness/database.ts'

it('releases keep their order, and running instances their handles, under the new names', async () => {
  await using database = await databaseBefore('0010-generations')
  const { db, pool } = database
  await pool.query("insert into accounts (id, name, plan) values ('acct_1', 'a', 'free')")
  await pool.query(
    `insert into projects (id, account_id, name, region, plan, status)
     values ('proj_1', 'acct_1', 'p', 'local', 'free', 'active')`,
  )
  await pool.query("insert into apps (id, project_id, name, port, intents) values ('app_1', 'proj_1', 'web', 20000, 2)")
  const plan = { kind: 'node', build: [], start: { argv: ['node', 'server.js'] } }
  const instance = { releaseId: 'dep_1', pid: 4711, startTime: '12345', port: 10_000 }
  for (const [id, status, intent, running] of [
    ['dep_1', 'running', 1, instance],
    ['dep_2', 'building', 2, null],
  ] as const) {
    await pool.query(
      `insert into deployments
         (id, project_id, app_id, account_id, status, intent, git_url, variables, plan, instance)
       values ($1, 'proj_1', 'app_1', 'acct_1', $2, $3, 'https://example.com/a.git', '', $4, $5)`,
      [id, status, intent, JSON.stringify(plan), running === null ? null : JSON.stringify(running)],
    )
  }

  await migrate(db, migrations)

  const apps = await pool.query('select generation from apps')
  expect(apps.rows).toEqual([{ generation: 2 }])
  const { rows } = await pool.query('select id, generation, runtime, build_plan, instance from deployments order by id')
  expect(rows).toEqual([
    {
      id: 'dep_1',
      generation: 1,
      runtime: 'process',
      build_plan: plan,
      instance: { runtime: 'process', data: instance },
    },
    { id: 'dep_2', generation: 2, runtime: 'process', build_plan: plan, instance: null },
  ])
})
