import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { enqueue, type Lane, startWorkers } from '../../../server/src/platform/jobs.ts'
import { testDatabase } from '../../harness/database.ts'

const logger = pino({ level: 'silent' })
/** So long that a test which needs a regular poll times out. */
const pollMs = 10_000

/** Starts four lanes, each with one task that calls `work`. */
async function lanes(work: (name: string) => void, { everyMs = pollMs, concurrency = 2 } = {}) {
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
  const work = (name: string) => {
    done.push(name)
    if (done.length === count) all.resolve()
  }
  await using jobs = await lanes(work, { everyMs, concurrency: 20 })
  const runAt = new Date(Date.now() + 300)
  const names = Array.from({ length: count }, (_, n) => `${n}`)
  for (const name of names) await enqueue(jobs.db, { task: 'c', payload: { name }, runAt })
  await all.promise
  expect(Date.now()).toBeGreaterThanOrEqual(runAt.getTime())
  expect(done.sort()).toEqual(names)

  // A moment later the queue is empty. A slow machine polls less often.
  await sleep(1_000)
  let queries = 0
  jobs.pool.on('acquire', () => (queries += 1))
  await sleep(2_000)
  expect(queries).toBeGreaterThan(0)
  expect(queries).toBeLessThanOrEqual(4 * (2_000 / everyMs) + 4)
})
