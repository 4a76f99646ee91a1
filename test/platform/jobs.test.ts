import { pino } from 'pino'
import { expect, it } from 'vitest'
import { openDatabase } from '../../server/src/platform/database.ts'
import { enqueue, type Lane, startWorkers } from '../../server/src/platform/jobs.ts'
import { testDatabase } from '../harness/database.ts'

const logger = pino({ level: 'silent' })
/** So long that a test which needs a regular poll times out. */
const pollMs = 10_000

/** Starts four lanes, each with one task that calls `work`. */
async function lanes(work: (name: string) => void) {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: database.url, max: 20 }, logger)
  cleanup.defer(() => handle.close())
  const named = (task: string): Lane => ({
    concurrency: 2,
    tasks: { [task]: async ({ name }) => work(String(name)) },
  })
  const workers = await startWorkers({
    pool: handle.pool,
    logger,
    lanes: ['a', 'b', 'c', 'd'].map(named),
    pollMs,
  })
  cleanup.defer(() => workers.stop())
  const owned = cleanup.move()
  return { db: handle.db, [Symbol.asyncDispose]: () => owned.disposeAsync() }
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

it('jobs of one queue follow each other in order, without waiting for the next regular poll', async () => {
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
