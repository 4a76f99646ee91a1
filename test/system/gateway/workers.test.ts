import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, expect, it } from 'vitest'
import { edgeSockets } from '../../../server/src/gateway/gateway.ts'
import { isRunning } from '../../../server/src/platform/processes.ts'
import { ask, createScope, type Place, type RawClient, rawClient, startApp } from '../../harness/gateway/harness.ts'
import { startLoad } from '../../harness/gateway/load.ts'
import { connectTo, ended, makeDataDirectory, running, startEcho } from '../../harness/gateway/program.ts'
import { freePort } from '../../harness/ports.ts'

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

/** Runs an action while a process is stopped. */
async function whileStopped<Result>(pid: number, work: () => Promise<Result>): Promise<Result> {
  process.kill(pid, 'SIGSTOP')
  try {
    return await work()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

/** Opens connections, and uses each of them once, so that a process has accepted it. */
async function openUsed(place: Place, count: number): Promise<RawClient[]> {
  const clients = await Promise.all(Array.from({ length: count }, () => rawClient(scope, place)))
  await Promise.all(clients.map((client) => askOn(client)))
  return clients
}

/** Sends a request on a kept connection, and resolves with all received bodies when this request is answered. */
async function askOn(client: RawClient): Promise<string> {
  const before = bodiesOf(client).length
  client.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  while (bodiesOf(client).length === before) await once(client.socket, 'more')
  return bodiesOf(client).at(-1) ?? ''
}

const bodiesOf = (client: RawClient): string[] =>
  client
    .received()
    .split('HTTP/1.1 200')
    .slice(1)
    .flatMap((answer) => answer.split('\r\n\r\n')[1] || [])

/**
 * Sends requests on all connections while a process is stopped, until `count` are answered; the rest are answered
 * afterwards.
 */
async function answeredWithout(pid: number, clients: readonly RawClient[], count: number): Promise<RawClient[]> {
  const answered: RawClient[] = []
  const { asking } = await whileStopped(pid, async () => {
    const asking = clients.map((client) => askOn(client).then(() => void answered.push(client)))
    await expect.poll(() => answered.length).toBe(count)
    return { asking }
  })
  const first = [...answered]
  await Promise.all(asking)
  return first
}

it('share the connections evenly, and add up their counts', async () => {
  const { gateway, port, main, worker } = await startTwo()
  const clients = await openUsed(port, 10)
  const ofMain = await answeredWithout(worker, clients, 5)
  const ofWorker = await answeredWithout(main.pid, clients, 5)
  expect(new Set([...ofMain, ...ofWorker])).toEqual(new Set(clients))
  expect(await gateway.takeTraffic()).toMatchObject([{ appId: 'app', requests: 30, errors: 0 }])
})

/** A gateway of two processes with the app `app`, which has the host name `a` on the shared port and behind an edge. */
async function startTwoShared(hostname = 'a') {
  const port = await freePort()
  const apps = { mode: 'hostnames', port, scheme: 'http' } as const
  const dataDirectory = await makeDataDirectory(scope)
  const gateway = await connectTo(scope, dataDirectory, { apps, workers: 2, edge: { hosts: [], httpsPort: 443 } })
  const app = await startEcho(scope, 'hi')
  await gateway.listen()
  await gateway.open('app', { hostname })
  await gateway.route('app', app.upstream)
  const { pid } = await running(dataDirectory)
  return { gateway, port, pid, ...edgeSockets(dataDirectory) }
}

it.each(['port', 'edge'] as const)('share the connections of the %s that all apps share', async (name) => {
  const { pid, [name]: place } = await startTwoShared()
  const clients = await openUsed(place, 4)
  const ofMain = await answeredWithout(await workerOf(pid), clients, 2)
  const ofWorker = await answeredWithout(pid, clients, 2)
  expect(new Set([...ofMain, ...ofWorker])).toEqual(new Set(clients))
})

it('a stopped process gets few connections, and its waiting connections are answered after its end', async () => {
  const { port, worker } = await startTwo()
  process.kill(worker, 'SIGSTOP')
  const bodies: string[] = []
  const asking = Array.from({ length: 100 }, () => ask(port).then(({ body }) => void bodies.push(body)))
  await expect.poll(() => bodies.length).toBeGreaterThanOrEqual(84)
  process.kill(worker, 'SIGKILL')
  await Promise.all(asking)
  expect(new Set(bodies)).toEqual(new Set(['hi']))
})

it('send no request to a release after a confirmed switch to another', async () => {
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

it('a switch is confirmed only by both processes', async () => {
  const { gateway, port, worker } = await startTwo()
  const other = await startEcho(scope, 'other')
  const [ofMain] = await answeredWithout(worker, await openUsed(port, 2), 1)
  let isConfirmed = false
  const switching = await whileStopped(worker, async () => {
    const route = gateway.route('app', other.upstream).then(() => {
      isConfirmed = true
    })
    // The main process has switched, and could have confirmed long before.
    await expect.poll(() => ofMain && askOn(ofMain)).toBe('other')
    expect(isConfirmed).toBe(false)
    return { route }
  })
  await switching.route
})

it('a killed process is replaced, with all apps', async () => {
  const { port, main, worker } = await startTwo()
  process.kill(worker, 'SIGKILL')
  await expect.poll(() => workerOf(main.pid).catch(() => worker)).not.toBe(worker)
  // It answers while the main process cannot, once the main process has told it the open addresses.
  const answer = async () => {
    const clients = await openUsed(port, 2)
    return whileStopped(main.pid, () => Promise.race([...clients.map(askOn), sleep(500)]))
  }
  await expect.poll(answer).toBe('hi')
  expect(isRunning(main)).toBe(true)
})

it('a killed process is replaced, with all additional names and responses', async () => {
  const { gateway, edge, pid } = await startTwoShared('address')
  await gateway.name('app', [{ hostname: 'a', redirectTo: null }])
  const path = '/.well-known/acme-challenge/token'
  await gateway.answerAt(path, 'proof')
  const worker = await workerOf(pid)
  process.kill(worker, 'SIGKILL')
  await expect.poll(() => workerOf(pid).catch(() => worker)).not.toBe(worker)
  const answer = async () => {
    const clients = await openUsed(edge, 2)
    return whileStopped(pid, async () => {
      const asking = clients.map(async (client) => {
        await askOn(client)
        client.socket.write(`GET ${path} HTTP/1.1\r\nHost: unknown\r\n\r\n`)
        return client.until('proof').then(() => 'proof')
      })
      return Promise.race([...asking, sleep(500)])
    })
  }
  await expect.poll(answer).toBe('proof')
})

it('end with the main process, and return with the next one', async () => {
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
