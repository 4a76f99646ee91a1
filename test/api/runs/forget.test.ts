import { pino } from 'pino'
import { expect, it } from 'vitest'
import { forgetRuns } from '../../../server/src/features/runs/runs.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { testDatabase } from '../../harness/database.ts'

it('the newest 200 runs of a schedule are kept, and 200 runs of all deleted schedules together', async () => {
  await using test = await testDatabase()
  const { db, close } = openDatabase({ connectionString: test.url, max: 2 }, pino({ level: 'silent' }))
  const [account, project, app] = [newId('account'), newId('project'), newId('app')]
  await test.query(`insert into accounts (id, name, plan) values ($1, 'a', 'free')`, [account])
  await test.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [project, account],
  )
  await test.query(`insert into apps (id, project_id, name, port) values ($1, $2, 'a', 20000)`, [app, project])
  await test.query(
    `insert into schedules (id, app_id, project_id, account_id, name, schedule, timezone, command, overlap, next_at)
     values ('kept', $1, $2, $3, 's', '* * * * *', 'UTC', '["true"]', 'allow', now())`,
    [app, project, account],
  )
  for (const schedule of ['kept', 'gone', 'gone too', null]) {
    await test.query(
      `insert into runs (id, app_id, project_id, account_id, schedule_id, due_at, command, status)
       select $4 || to_char(n, '0000'), $1, $2, $3, $5, now() + n * interval '1 minute', '["true"]', 'succeeded'
       from generate_series(1, 250) as n`,
      [app, project, account, `${schedule}`, schedule],
    )
  }
  await forgetRuns(db)
  const left = await test.query(
    `select schedule_id is not distinct from 'kept' as of_it, count(*)::int as runs from runs group by 1 order by 1`,
  )
  expect(left).toEqual([
    { of_it: false, runs: 200 },
    { of_it: true, runs: 200 },
  ])
  await close()
})
