import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, expect, it } from 'vitest'
import { ask, createScope } from '../../harness/gateway/harness.ts'
import { connectTo, ended, openTunnel, running, startEcho, startOne } from '../../harness/gateway/program.ts'

const scope = createScope()
afterEach(() => scope.end())

/** Longer than the gateway waits for any hung process. */
const patience = { timeout: 30_000 }

/** A log that keeps errors and warnings. */
function keptLog() {
  const lines: string[] = []
  const keep = (_: object, message: string) => void lines.push(message)
  return { log: { info: () => {}, warn: keep, error: keep }, lines }
}

async function workersOf(pid: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('pgrep', ['-P', String(pid)])
  return stdout.trim().split('\n').map(Number)
}

/** Stops a process; it continues at the end of the test, if it still exists. */
function hang(pid: number): void {
  process.kill(pid, 'SIGSTOP')
  scope.defer(() => {
    try {
      process.kill(pid, 'SIGCONT')
    } catch {
      // It has been ended.
    }
  })
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

it('a gateway that hangs is ended with its workers and replaced, and a waiting switch continues', async () => {
  const { log, lines } = keptLog()
  const { dataDirectory, gateway, port, process: hung } = await startOne(scope, { workers: 3, log })
  const [hungWorker = 0] = await workersOf(hung.pid)
  const other = await startEcho(scope, 'other')
  expect(gateway.problem()).toBeUndefined()
  hang(hungWorker)
  hang(hung.pid)
  const switched = gateway.route('app', other.upstream)
  await expect.poll(gateway.problem, patience).toBe('the gateway does not answer')
  await switched
  await ended(hung)
  await expect.poll(() => isAlive(hungWorker)).toBe(false)
  expect((await ask(port)).body).toBe('other')
  expect(await running(dataDirectory)).not.toMatchObject({ pid: hung.pid })
  await expect.poll(gateway.problem).toBeUndefined()
  expect(lines).toContain('the gateway has answered nothing for 10 s; it is ended and replaced')
})

it('a gateway that hangs is also replaced without any calls', async () => {
  const { port, process: hung } = await startOne(scope)
  hang(hung.pid)
  await ended(hung)
  const answer = () =>
    ask(port).then(
      ({ body }) => body,
      () => null,
    )
  await expect.poll(answer, patience).toBe('hi')
})

it('a worker that hangs is replaced without the other processes, and delays a switch by seconds at most', async () => {
  const { dataDirectory, gateway, port, process: main } = await startOne(scope, { workers: 3 })
  const [hung = 0, other = 0] = await workersOf(main.pid)
  const next = await startEcho(scope, 'next')
  hang(hung)
  const switched = gateway.route('app', next.upstream)
  await expect.poll(gateway.problem, patience).toBe('a process of the gateway does not answer')
  await switched
  await expect.poll(() => workersOf(main.pid), patience).toHaveLength(2)
  expect(await workersOf(main.pid)).toContain(other)
  expect(await workersOf(main.pid)).not.toContain(hung)
  expect(await running(dataDirectory)).toMatchObject({ pid: main.pid })
  const answers = await Promise.all(Array.from({ length: 12 }, () => ask(port).then(({ body }) => body)))
  expect(new Set(answers)).toEqual(new Set(['next']))
  await expect.poll(gateway.problem).toBeUndefined()
  const told = await readFile(join(dataDirectory, 'gateway', 'gateway.log'), 'utf8')
  expect(told).toContain('a worker has answered nothing for 5 s; it is ended and replaced')
})

it('a starting server replaces a gateway that hangs', async () => {
  const { dataDirectory, gateway, port, process: hung } = await startOne(scope)
  gateway.leave()
  hang(hung.pid)
  const { log, lines } = keptLog()
  const next = await connectTo(scope, dataDirectory, { epoch: 2, log })
  await ended(hung)
  const app = await startEcho(scope, 'again')
  await next.open('app', { port })
  await next.route('app', app.upstream)
  expect((await ask(port)).body).toBe('again')
  expect(lines).toContain('the gateway has answered nothing for 10 s; it is ended and replaced')
})

it('a replaced gateway that hangs while it finishes its requests is ended by its successor', async () => {
  const { dataDirectory, port, process: old } = await startOne(scope)
  const tunnel = await openTunnel(scope, port)
  const next = await connectTo(scope, dataDirectory, { epoch: 2, version: '2.0.0', retireMs: 300_000 })
  expect(await tunnel.say('there')).toBe('hi there')
  hang(old.pid)
  const other = await startEcho(scope, 'other')
  await next.route('app', other.upstream)
  await ended(old)
  expect((await ask(port)).body).toBe('other')
})
