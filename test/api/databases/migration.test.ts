import { pino } from 'pino'
import { expect, it } from 'vitest'
import { migrate } from '../../../server/src/platform/database.ts'
import { enqueue, prepareJobs } from '../../../server/src/platform/jobs.ts'
import { migrations } from '../../../server/src/platform/migrations/index.ts'
import { databaseBefore } from '../../harness/database.ts'

const logger = pino({ level: 'silent' })

it('restrictions and pending jobs keep their meaning under their new names, and databases their names in the engine', async () => {
  await using database = await databaseBefore('0011-database-restrictions')
  const { db, pool } = database
  await prepareJobs(pool, logger)
  await pool.query("insert into accounts (id, name, plan) values ('acct_1', 'a', 'free')")
  await pool.query(
    `insert into projects (id, account_id, name, region, plan, status)
     values ('proj_1', 'acct_1', 'p', 'local', 'free', 'active')`,
  )
  for (const level of ['none', 'read_only', 'closed']) {
    await pool.query(
      `insert into databases (id, project_id, name, plan, engine, version, host, port, password, status, over_limit)
       values ($1, 'proj_1', 'db', 'free', 'embedded', '18', '127.0.0.1', 5432, '', 'available', $1)`,
      [level],
    )
  }
  await enqueue(db, { task: 'databases.settle', payload: { database_id: 'none' } })

  await migrate(db, migrations)

  const { rows } = await pool.query('select id, role_name, restriction from databases order by id')
  expect(rows).toEqual([
    { id: 'closed', role_name: 'closed', restriction: 'no_login' },
    { id: 'none', role_name: 'none', restriction: 'none' },
    { id: 'read_only', role_name: 'read_only', restriction: 'read_only' },
  ])
  await expect(pool.query("update databases set restriction = 'closed'")).rejects.toMatchObject({ code: '23514' })
  const jobs = await pool.query('select task_identifier as task from graphile_worker.jobs')
  expect(jobs.rows).toEqual([{ task: 'databases.reconcile' }])
})
