import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, it, vi } from 'vitest'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { countJobs, enqueue, type Lane, startWorkers, unlockDeadJobs } from '../../../server/src/platform/jobs.ts'
import { testDatabase } from '../../harness/database.ts'

const logger = pino({ level: 'silent' })
/** So long that a test which needs a regular poll times out. */
const pollMs = 10_000

/** Starts four lanes, each with one task that calls `work`. */
async function lanes(work: (name: string) => void | Promise<void>, { everyMs = pollMs, concurrency = 2 } = {}) {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: database.url, max: 20 }, logger)
  cleanup.defer(() => handle.close())
  const named = (task: string): Lane => ({
    concurrency,
    tasks: { [task]: async ({ name }) => work(String(name)) },
  })
  const workers = await startWorkers({
    pool: handle.pool,
    logger,
    lanes: ['a', 'b', 'c', 'd'].map(named),
    pollMs: everyMs,
  })
  cleanup.defer(() => workers.stop())
  const owned = cleanup.move()
  return { db: handle.db, pool: handle.pool, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

it('a job is found although every lane polls at once, without waiting for the next regular poll', async () => {
  let arrived = (_: string) => {}
  await using jobs = await lanes((name) => arrived(name))
  for (let n = 0; n < 60; n++) {
    const came = new Promise<string>((resolve) => {
      arrived = resolve
    })
    await enqueue(jobs.db, { task: 'a', payload: { name: `${n}` }, queue: `queue ${n}` })
    expect(await came).toBe(`${n}`)
  }
})

it('jobs of one queue run in order, without waiting for the next regular poll', async () => {
  const done: string[] = []
  const all = Promise.withResolvers<void>()
  await using jobs = await lanes((name) => {
    done.push(name)
    if (done.length === 20) all.resolve()
  })
  const names = Array.from({ length: 20 }, (_, n) => `${n}`)
  for (const name of names) await enqueue(jobs.db, { task: 'b', payload: { name }, queue: 'one' })
  await all.promise
  expect(done).toEqual(names)
})

it('jobs that become due later are found, and a lane polls once for all of its workers', async () => {
  const everyMs = 100
  const count = 5
  const done: string[] = []
  const all = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const work = async (name: string) => {
    if (name === 'held') await held.promise
    done.push(name)
    if (done.length === count) all.resolve()
  }
  await using jobs = await lanes(work, { everyMs, concurrency: 20 })
  using _ = { [Symbol.dispose]: held.resolve }
  const runAt = new Date(Date.now() + 300)
  const names = Array.from({ length: count }, (_, n) => `${n}`)
  for (const name of names) await enqueue(jobs.db, { task: 'c', payload: { name }, runAt })
  await all.promise
  expect(Date.now()).toBeGreaterThanOrEqual(runAt.getTime())
  expect(done.sort()).toEqual(names)

  // A moment later no job can start: the only waiting job follows a running one in its queue. A slow machine polls
  // less often.
  for (const name of ['held', 'next']) await enqueue(jobs.db, { task: 'd', payload: { name }, queue: 'one' })
  await sleep(1_000)
  let queries = 0
  jobs.pool.on('acquire', () => (queries += 1))
  const polls = vi.spyOn(jobs.pool, 'query')
  await sleep(2_000)
  expect(queries).toBeGreaterThan(0)
  expect(queries).toBeLessThanOrEqual(4 * (2_000 / everyMs) + 4)
  // Each lane may release old locks once. No worker asks for a job.
  expect(queries).toBeLessThanOrEqual(polls.mock.calls.length + 4)
  held.resolve()
  await expect.poll(() => done).toContain('next')
})

it('a new leader runs the jobs of dead workers again, in the order of their queue', async () => {
  const held = Promise.withResolvers<void>()
  const began = Promise.withResolvers<void>()
  await using jobs = await lanes(
    () => {
      began.resolve()
      return held.promise
    },
    { concurrency: 1 },
  )
  using _ = { [Symbol.dispose]: held.resolve }
  const names = ['1', '2', '3']
  for (const name of names) await enqueue(jobs.db, { task: 'a', payload: { name }, queue: 'one' })
  await began.promise
  expect(await countJobs(jobs.pool)).toEqual({ waiting: 2, running: 1, failed: 0 })

  await unlockDeadJobs(jobs.pool)
  expect(await countJobs(jobs.pool)).toEqual({ waiting: 3, running: 0, failed: 0 })
  const done: string[] = []
  const tasks = { a: async ({ name }: Readonly<Record<string, string>>) => void done.push(String(name)) }
  const workers = await startWorkers({ pool: jobs.pool, logger, lanes: [{ concurrency: 2, tasks }], pollMs })
  await expect.poll(() => done).toEqual(names)
  await workers.stop()
})

it('a job that has used up its attempts counts as failed, not as waiting', async () => {
  await using database = await testDatabase()
  const { db, pool, close } = openDatabase({ connectionString: database.url, max: 2 }, logger)
  await using _ = { [Symbol.asyncDispose]: close }
  for (const name of ['1', '2']) await enqueue(db, { task: 'a', payload: { name } })
  await database.query('select graphile_worker.permanently_fail_jobs(array[min(id)]) from graphile_worker.jobs')
  expect(await countJobs(pool)).toEqual({ waiting: 1, running: 0, failed: 1 })
})
