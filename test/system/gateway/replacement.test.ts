import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { isRunning } from '../../../server/src/platform/processes.ts'
import { ask, createScope, rawClient, startApp } from '../../harness/gateway/harness.ts'
import { startLoad } from '../../harness/gateway/load.ts'
import {
  connectTo,
  ended,
  makeDataDirectory,
  openTunnel,
  running,
  startEcho,
  startOne,
} from '../../harness/gateway/program.ts'
import { freePort } from '../../harness/ports.ts'

const scope = createScope()
afterEach(() => scope.end())

it.each([1, 2])(
  'by a newer version loses no request, with %i workers, and lets WebSockets finish',
  { timeout: 400_000 },
  async (workers) => {
    const { dataDirectory, app, port, process: old } = await startOne(scope, { workers })
    const tunnels = await Promise.all(Array.from({ length: 20 }, () => openTunnel(scope, port)))
    const load = startLoad(scope, port)
    await load.more(5_000)
    const retireMs = 15_000
    const begun = performance.now()
    const next = await connectTo(scope, dataDirectory, { epoch: 2, version: '2.0.0', workers, retireMs })
    const tookOver = await running(dataDirectory)
    expect(tookOver.version).toBe('2.0.0')
    expect(tookOver.pid).not.toBe(old.pid)
    expect(next.current('app')).toEqual(app.upstream)
    for (const tunnel of tunnels) expect(await tunnel.say('there')).toBe('hi there')
    await load.more(15_000)
    await load.stop()
    expect(load.failures).toEqual([])

    await Promise.all(tunnels.map(({ closed }) => closed))
    expect(performance.now() - begun).toBeGreaterThan(retireMs)
    await ended(old)
    const counted = (await next.takeTraffic()).reduce((sum, { requests }) => sum + requests, 0)
    // The upgrade of each tunnel is a request too.
    expect(counted).toBe(load.answered() + tunnels.length)
    expect((await ask(port)).body).toBe('hi')
  },
)

it('of the shared port loses no request, either', async () => {
  const port = await freePort()
  const apps = { mode: 'hostnames', port, scheme: 'http' } as const
  const dataDirectory = await makeDataDirectory(scope)
  const gateway = await connectTo(scope, dataDirectory, { apps })
  const app = await startEcho(scope, 'hi')
  await gateway.listen()
  await gateway.open('app', { hostname: '127.0.0.1' })
  await gateway.route('app', app.upstream)
  const load = startLoad(scope, port)
  await load.more(1_000)
  await connectTo(scope, dataDirectory, { apps, epoch: 2, version: '2.0.0' })
  await load.more(1_000)
  await load.stop()
  expect(load.failures).toEqual([])
})

it('tells the old gateway of changes, and a drain waits for its running requests', async () => {
  const { dataDirectory, port } = await startOne(scope)
  const arrived = Promise.withResolvers<() => void>()
  const held = await startApp(scope, (_, res) => arrived.resolve(() => res.end('held')))
  const gateway = await connectTo(scope, dataDirectory)
  await gateway.route('app', held.upstream)
  const answer = ask(port)
  const finish = await arrived.promise
  const kept = await rawClient(scope, port)
  const unused = await rawClient(scope, port)
  await expect.poll(() => held.server.listening).toBe(true)

  const next = await connectTo(scope, dataDirectory, { epoch: 2, version: '2.0.0', retireMs: 2 ** 30 })
  const other = await startEcho(scope, 'other')
  expect(await next.route('app', other.upstream)).toEqual(held.upstream)
  let isDrained = false
  const drained = next.drain(held.upstream, { timeoutMs: 2 ** 30 }).then(() => {
    isDrained = true
  })
  kept.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(await kept.until('other')).toMatch(/connection: close/i)
  await kept.closed()
  expect(isDrained).toBe(false)
  finish()
  expect((await answer).body).toBe('held')
  await drained
  unused.socket.destroy()
})

it('by a gateway that does not start leaves the old one unchanged, and says why', async () => {
  const { dataDirectory, app, port, process: old } = await startOne(scope)
  const load = startLoad(scope, port)
  await load.more(100)
  const next = await connectTo(scope, dataDirectory, { epoch: 2, version: '2.0.0', trustedProxies: ['nonsense'] })
  expect(await running(dataDirectory)).toEqual(old)
  expect(next.current('app')).toEqual(app.upstream)
  expect(await next.route('app', null)).toEqual(app.upstream)
  await next.route('app', app.upstream)
  const log = await readFile(join(dataDirectory, 'gateway', 'gateway.log'), 'utf8')
  expect(log).toContain('did not start: nonsense is not an IP address')
  await load.stop()
})

it('by a gateway that listens elsewhere starts over, with the apps and their routes', async () => {
  const { dataDirectory, port, process: old } = await startOne(scope)
  await connectTo(scope, dataDirectory, { epoch: 2, host: '0.0.0.0' })
  expect(isRunning(old)).toBe(false)
  await expect
    .poll(() =>
      ask(port).then(
        ({ body }) => body,
        () => null,
      ),
    )
    .toBe('hi')
})

it('does not happen for a server of the same version', async () => {
  const { dataDirectory, process: old } = await startOne(scope)
  await connectTo(scope, dataDirectory, { epoch: 2 })
  expect(await running(dataDirectory)).toEqual(old)
})
