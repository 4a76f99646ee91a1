import { pino } from 'pino'
import { expect, it } from 'vitest'
import { beginRun, endRun, type Outcome } from '../../../server/src/features/runs/runs.ts'
import { type SchedulerDependencies, startScheduler } from '../../../server/src/features/runs/scheduler.ts'
import { createTotals } from '../../../server/src/platform/account-limits.ts'
import { type Database, openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { createMarks } from '../../../server/src/platform/marks.ts'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'

const logger = pino({ level: 'silent' })
const minuteMs = 60_000
const start = Date.parse('2026-03-01T12:00:30Z')
/** The connections that wait for a lock on a table of this database. */
const waiting = `select from pg_locks join pg_database on pg_database.oid = database
  where not granted and locktype = 'relation' and datname = current_database()`
const done: Outcome = { status: 'succeeded', exit_code: 0, signal: null, problem: null }

/** A leader with the test's clock. A killed leader leaves its work unfinished. */
function leader(
  database: Database,
  clock: { now: number },
  begun: string[],
  hasRoom: SchedulerDependencies['hasRoom'] = async () => true,
) {
  let killed = false
  const marks = createMarks({ marked: async () => [], release: async () => undefined })
  const scheduler = startScheduler({
    database,
    logger,
    now: () => new Date(clock.now),
    hasRoom,
    executor: {
      execute: (id) =>
        marks.during(id, async (held) => {
          const run = killed ? undefined : await beginRun(database, held)
          if (run === undefined) return done
          begun.push(String(run.due_at?.toISOString()))
          if (!killed) await endRun(database, id, done)
          return done
        }),
    },
  })
  return {
    async kill() {
      killed = true
      await scheduler.stop()
    },
  }
}

/** Makes an app with a schedule for every minute, whose next time is 12:01. */
async function everyMinute(test: TestDatabase): Promise<void> {
  const scheduleId = newId('schedule')
  const [account, project, app] = [newId('account'), newId('project'), newId('app')]
  await test.query(`insert into accounts (id, name, plan) values ($1, 'a', 'free')`, [account])
  await test.query(
    `insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'local', 'free', 'active')`,
    [project, account],
  )
  await test.query(`insert into apps (id, project_id, name, port) values ($1, $2, 'a', 20000)`, [app, project])
  await test.query(
    `insert into schedules (id, app_id, project_id, account_id, name, schedule, timezone, command, overlap, next_at)
     values ($1, $2, $3, $4, 's', '* * * * *', 'UTC', '["true"]', 'allow', '2026-03-01T12:01:00Z')`,
    [scheduleId, app, project, account],
  )
}

it('every time of a schedule begins one run, with several schedulers at once and during their replacement', async () => {
  await using test = await testDatabase()
  const { db, close } = openDatabase({ connectionString: test.url, max: 8 }, logger)
  await everyMinute(test)
  const clock = { now: start }
  const begun: string[] = []
  const rounds = 30
  let leaders = [leader(db, clock, begun), leader(db, clock, begun)]
  for (let round = 0; round < rounds; round++) {
    clock.now += minuteMs
    if (round % 3 === 0) {
      await leaders[0]?.kill()
      leaders = [...leaders.slice(1), leader(db, clock, begun)]
    }
    // Another scheduler checks at once; the others find what remains.
    const looker = leader(db, clock, begun)
    await expect.poll(() => new Set(begun).size).toBe(round + 1)
    await looker.kill()
  }
  for (const each of leaders) await each.kill()
  const expected = Array.from({ length: rounds }, (_, at) => new Date(start + 30_000 + at * minuteMs).toISOString())
  expect(begun.sort()).toEqual(expected)
  expect(await test.query(`select count(*)::int as runs from runs`)).toEqual([{ runs: rounds }])
  await close()
})

it('a time that passed while a new scheduler waited for the database begins a run', async () => {
  await using test = await testDatabase()
  const { db, close } = openDatabase({ connectionString: test.url, max: 8 }, logger)
  await everyMinute(test)
  const clock = { now: start }
  const begun: string[] = []
  await test.query('begin')
  await test.query('lock table schedules')
  const late = leader(db, clock, begun)
  await expect.poll(() => test.query(waiting)).toHaveLength(1)
  // Another scheduler has begun 12:01 in between.
  await test.query(`update schedules set next_at = '2026-03-01T12:02:00Z'`)
  clock.now += 2 * minuteMs
  await test.query('commit')
  await expect.poll(() => begun).toEqual(['2026-03-01T12:02:00.000Z'])
  await late.kill()
  await close()
})

it('a command that is being created counts at a time of a schedule', async () => {
  await using test = await testDatabase()
  const { db, close } = openDatabase({ connectionString: test.url, max: 8 }, logger)
  await everyMinute(test)
  const { hasRoom } = createTotals({
    plans: { ...shippedPlans, free: { ...shippedPlans.free, account: { runs: 1 } } },
    tierOf: async () => 'free',
  })
  // A request has counted, and its run is not committed.
  await test.query('begin')
  await test.query(`select pg_advisory_xact_lock(hashtextextended('runs of ' || id, 0)) from accounts`)
  await test.query(
    `insert into runs (id, app_id, project_id, account_id, command, status)
     select $1, id, project_id, (select id from accounts), '["true"]', 'waiting' from apps`,
    [newId('run')],
  )
  const one = leader(db, { now: start + minuteMs }, [], (transaction, accountId, count) =>
    hasRoom(transaction, accountId, 'runs', count),
  )
  const locks = `select from pg_locks join pg_database on pg_database.oid = database
    where not granted and locktype = 'advisory' and datname = current_database()`
  await expect.poll(() => test.query(locks)).toHaveLength(1)
  await test.query('commit')
  const ofSchedule = 'select status, problem from runs where schedule_id is not null'
  await expect
    .poll(() => test.query(ofSchedule))
    .toEqual([{ status: 'skipped', problem: 'The account ran as many commands as it may at once.' }])
  await one.kill()
  await close()
})

it('deleting an app and a time of its schedule do not wait for each other', async () => {
  await using test = await testDatabase()
  const { db, close } = openDatabase({ connectionString: test.url, max: 8 }, logger)
  await everyMinute(test)
  await test.query('begin')
  await test.query('select from apps for update')
  let looks = 0
  const clock = {
    get now() {
      looks += 1
      return start + minuteMs
    },
  }
  const one = leader(db, clock, [])
  await expect.poll(() => looks).toBeGreaterThan(6)
  await test.query('delete from apps')
  await test.query('commit')
  await one.kill()
  expect(await test.query('select from runs')).toEqual([])
  await close()
})
