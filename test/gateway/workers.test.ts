import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, expect, it } from 'vitest'
import { isRunning } from '../../server/src/platform/processes.ts'
import { freePort } from '../harness/ports.ts'
import { ask, createScope, startApp } from './harness.ts'
import { startLoad } from './load.ts'
import { connectTo, ended, makeDataDirectory, running, startEcho } from './program.ts'

const scope = createScope()
afterEach(() => scope.end())

/** A gateway of two processes with the app `app`, which answers `hi`. */
async function startTwo() {
  const dataDirectory = await makeDataDirectory(scope)
  const gateway = await connectTo(scope, dataDirectory, { workers: 2 })
  const app = await startEcho(scope, 'hi')
  const port = await freePort()
  await gateway.open('app', { port })
  await gateway.route('app', app.upstream)
  const main = await running(dataDirectory)
  return { dataDirectory, gateway, app, port, main, worker: await workerOf(main.pid) }
}

/** The pid of the other process. */
async function workerOf(pid: number): Promise<number> {
  const { stdout } = await promisify(execFile)('pgrep', ['-P', String(pid)])
  return Number(stdout)
}

/** Does something while a process is stopped. */
async function whileStopped<Result>(pid: number, work: () => Promise<Result>): Promise<Result> {
  process.kill(pid, 'SIGSTOP')
  try {
    return await work()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

it('both answer, and their counts are one', async () => {
  const { gateway, port, main, worker } = await startTwo()
  for (const pid of [main.pid, worker]) {
    expect(await whileStopped(pid, async () => (await ask(port)).body)).toBe('hi')
  }
  expect(await gateway.takeTraffic()).toEqual([{ appId: 'app', requests: 2, errors: 0 }])
})

it('send no request to a release after the switch to another one was confirmed', async () => {
  const { gateway, port } = await startTwo()
  let confirmed = 0
  const older: string[] = []
  const releases = await Promise.all(
    Array.from({ length: 20 }, (_, at) => startApp(scope, (_req, res) => res.end(String(at)))),
  )
  await gateway.route('app', releases[0]?.upstream ?? null)
  const load = startLoad(scope, port, {
    begin: () => {
      const atLeast = confirmed
      return (body) => {
        if (Number(body) < atLeast) older.push(`${body} after ${atLeast}`)
      }
    },
  })
  for (const [at, { upstream }] of releases.entries()) {
    await gateway.route('app', upstream)
    confirmed = at
    await load.more(100)
  }
  await load.stop()
  expect([older, load.failures]).toEqual([[], []])
})

it('a switch is confirmed by both, not by one', async () => {
  const { gateway, port, worker } = await startTwo()
  const other = await startEcho(scope, 'other')
  let isConfirmed = false
  const switching = await whileStopped(worker, async () => {
    const route = gateway.route('app', other.upstream).then(() => {
      isConfirmed = true
    })
    // The main process has switched, and could have said so long before this.
    await expect.poll(async () => (await ask(port)).body).toBe('other')
    expect(isConfirmed).toBe(false)
    return { route }
  })
  await switching.route
})

it('one that is killed is replaced, with all apps', async () => {
  const { port, main, worker } = await startTwo()
  process.kill(worker, 'SIGKILL')
  await expect.poll(() => workerOf(main.pid).catch(() => worker)).not.toBe(worker)
  // It answers while the main process cannot, as soon as that one has told it what is open.
  const answer = () =>
    whileStopped(main.pid, () => {
      const asked = ask(port).then(
        ({ body }) => body,
        () => null,
      )
      return Promise.race([asked, sleep(500)])
    })
  await expect.poll(answer).toBe('hi')
  expect(isRunning(main)).toBe(true)
})

it('end with the main process, and are back with the next one', async () => {
  const { dataDirectory, port, main, worker } = await startTwo()
  process.kill(main.pid, 'SIGKILL')
  await ended(main)
  await expect.poll(() => isAlive(worker)).toBe(false)
  await expect
    .poll(() =>
      ask(port).then(
        ({ body }) => body,
        () => null,
      ),
    )
    .toBe('hi')
  expect(await workerOf((await running(dataDirectory)).pid)).not.toBe(worker)
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
