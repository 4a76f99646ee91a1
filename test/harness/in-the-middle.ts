import { expect } from 'vitest'
import { openTestDatabase, type TestDatabase } from './database.ts'

/**
 * Changes rows in a transaction of the test and starts requests. Commits as soon as each request has ended, or waits
 * for a lock. All requests have then begun before the change, and continue after it.
 */
export async function inTheMiddle<Result>(
  database: Pick<TestDatabase, 'url'>,
  change: (own: TestDatabase) => Promise<unknown>,
  requests: () => readonly Promise<Result>[],
): Promise<Result[]> {
  await using own = await openTestDatabase(database.url)
  await using looking = await openTestDatabase(database.url)
  await own.query('begin')
  await change(own)
  const [holder] = await own.query<{ pid: number }>('select pg_backend_pid() as pid')
  const waiting = () =>
    looking.query(
      `with recursive waiting (pid) as (
         select $1::int
         union
         select activity.pid from pg_stat_activity activity join waiting on waiting.pid = any(pg_blocking_pids(activity.pid))
         where activity.datname = current_database()
       ) select pid from waiting where pid <> $1`,
      [holder?.pid],
    )
  let ended = 0
  const begun = requests().map((request) => request.finally(() => ended++))
  await expect.poll(async () => ended + (await waiting()).length).toBe(begun.length)
  await own.query('commit')
  return Promise.all(begun)
}
