import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { lstat, readFile, writeFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { connectGateway } from '../../../server/src/gateway/gateway.ts'
import { ask, createScope, HOST, rawClient, silent, startApp, upstreamAt } from '../../harness/gateway/harness.ts'
import {
  connectTo,
  defaults,
  ended,
  makeDataDirectory,
  openTunnel,
  running,
  startEcho,
  startOne,
} from '../../harness/gateway/program.ts'
import { freePort } from '../../harness/ports.ts'
import { isRoot } from '../../harness/temporary.ts'
import type { Task } from './server-process.ts'

const scope = createScope()
afterEach(() => scope.end())

it('starts with the first opened app, answers, counts, and ends when it is stopped', async () => {
  const dataDirectory = await makeDataDirectory(scope)
  const gateway = await connectTo(scope, dataDirectory)
  expect(await gateway.takeTraffic()).toEqual([])
  await gateway.close('unknown')
  await gateway.drain(upstreamAt(1), { timeoutMs: 0 })
  await expect(gateway.route('app', null)).rejects.toThrow('open')
  await expect(running(dataDirectory)).rejects.toMatchObject({ code: 'ENOENT' })

  const app = await startApp(scope, (_, res) => res.end('hi'))
  const port = await freePort()
  await gateway.open('app', { port })
  expect(await gateway.route('app', app.upstream)).toBeNull()
  expect((await ask(port)).body).toBe('hi')
  expect(await gateway.takeTraffic()).toMatchObject([{ appId: 'app', requests: 1, errors: 0 }])
  expect((await ask(port)).body).toBe('hi')
  const process = await running(dataDirectory)
  expect(process).toMatchObject({ version: '1.0.0' })
  await gateway.stop({ timeoutMs: 0 })
  await ended(process)
  expect(await gateway.takeTraffic()).toMatchObject([{ appId: 'app', requests: 1, errors: 0 }])
  expect(await gateway.takeTraffic()).toEqual([])
  expect(gateway.current('app')).toBeNull()
  await expect(ask(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

describe('when its server ends', () => {
  it('continues, and the next server adopts it with its routes', async () => {
    const { dataDirectory, gateway, app, port, process } = await startOne(scope)
    const tunnel = await openTunnel(scope, port)
    const kept = await rawClient(scope, port)
    gateway.leave()
    await expect(gateway.route('app', null)).rejects.toThrow('left the gateway')
    expect((await ask(port)).body).toBe('hi')

    const next = await connectTo(scope, dataDirectory, { epoch: 2 })
    expect(await running(dataDirectory)).toEqual(process)
    expect(next.current('app')).toEqual(app.upstream)
    expect(next.apps()).toEqual([{ appId: 'app', address: { port }, upstream: app.upstream }])
    const other = await startEcho(scope, 'other')
    expect(await next.route('app', other.upstream)).toEqual(app.upstream)
    kept.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await kept.until('other')
    expect(await tunnel.say('there')).toBe('hi there')
  })

  it('also continues after a kill of the server', async () => {
    const dataDirectory = await makeDataDirectory(scope)
    const { upstream } = await startEcho(scope, 'hi')
    const port = await freePort()
    const server = await startServerProcess({ dataDirectory, options: defaults, port, upstream })
    const process = await running(dataDirectory)
    const tunnel = await openTunnel(scope, port)
    const gone = once(server, 'exit')
    server.kill('SIGKILL')
    await gone
    expect((await ask(port)).body).toBe('hi')
    expect(await tunnel.say('there')).toBe('hi there')
    const next = await connectTo(scope, dataDirectory)
    expect(next.current('app')).toEqual(upstream)
    expect(await running(dataDirectory)).toEqual(process)
  })

  it('ends by itself when its folder is removed', async () => {
    const { dataDirectory, gateway, port, process } = await startOne(scope)
    gateway.leave()
    await promisify(execFile)('rm', ['-r', dataDirectory])
    await ended(process)
    await expect(ask(port)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })
})

async function startServerProcess(task: Task): Promise<ChildProcess> {
  const file = fileURLToPath(new URL('./server-process.ts', import.meta.url))
  const child = spawn(process.execPath, [file, JSON.stringify(task)], { stdio: ['ignore', 'pipe', 'inherit'] })
  scope.defer(() => void child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  return child
}

describe('when it is killed', () => {
  it('is restarted with all listeners and routes', async () => {
    const { dataDirectory, gateway, app, port, process: first } = await startOne(scope)
    const unrouted = await freePort()
    await gateway.open('unrouted', { port: unrouted })
    process.kill(first.pid, 'SIGKILL')
    await expect
      .poll(
        () =>
          ask(port).then(
            ({ body }) => body,
            () => null,
          ),
        { interval: 10 },
      )
      .toBe('hi')
    await expect
      .poll(
        () =>
          ask(unrouted).then(
            ({ status }) => status,
            () => null,
          ),
        { interval: 10 },
      )
      .toBe(503)
    expect((await running(dataDirectory)).pid).not.toBe(first.pid)
    expect(gateway.current('app')).toEqual(app.upstream)
  })

  it('repeats the pending calls, and drains that ended with it are over', async () => {
    const { gateway, app, port, process: first } = await startOne(scope)
    const arrived = Promise.withResolvers<void>()
    app.server.removeAllListeners('request')
    app.server.on('request', () => arrived.resolve())
    const held = expect(ask(port)).rejects.toThrow()
    await arrived.promise
    const other = await startEcho(scope, 'other')
    await gateway.route('app', other.upstream)
    const drained = gateway.drain(app.upstream, { timeoutMs: 2 ** 30 })
    process.kill(first.pid, 'SIGKILL')
    const third = await startEcho(scope, 'third')
    expect(await gateway.route('app', third.upstream)).toEqual(other.upstream)
    await Promise.all([drained, held])
    expect((await ask(port)).body).toBe('third')
    expect(await gateway.takeTraffic()).toMatchObject([{ appId: 'app', requests: 1, errors: 0 }])
  })

  it('is started by the next server, whatever it has left behind', async () => {
    const { dataDirectory, gateway, port, process: first } = await startOne(scope)
    gateway.leave()
    process.kill(first.pid, 'SIGKILL')
    await ended(first)
    const folder = join(dataDirectory, 'gateway')
    await writeFile(join(folder, 'start.lock'), '')
    await writeFile(join(folder, 'gateway.json'), '{')
    const next = await connectTo(scope, dataDirectory)
    expect(next.apps()).toEqual([])
    await next.open('app', { port })
    expect((await ask(port)).status).toBe(503)
    expect((await running(dataDirectory)).pid).not.toBe(first.pid)
  })
})

describe('its servers', () => {
  it('of an older epoch than the newest are refused', async () => {
    const { dataDirectory, gateway, port } = await startOne(scope, { epoch: 2 })
    await expect(connectTo(scope, dataDirectory, { epoch: 1 })).rejects.toThrow(
      'a server of epoch 2 leads this gateway, and this one is of epoch 1',
    )
    await connectTo(scope, dataDirectory, { epoch: 3 })
    await expect.poll(() => gateway.route('app', null).catch(String)).toMatch('another server leads this gateway now')
    expect((await ask(port)).body).toBe('hi')
  })

  it('share one gateway when they start it at the same time', async () => {
    const dataDirectory = await makeDataDirectory(scope)
    const servers = await Promise.all([1, 2, 3].map((epoch) => connectTo(scope, dataDirectory, { epoch })))
    const ports = await Promise.all(servers.map(() => freePort()))
    const opened = await Promise.allSettled(
      servers.map((server, at) => server.open(`app${at}`, { port: ports[at] ?? 0 })),
    )
    expect(opened.at(-1)).toMatchObject({ status: 'fulfilled' })
    const { pid } = await running(dataDirectory)
    const listed = await promisify(execFile)('pgrep', ['-f', join(dataDirectory, 'gateway')])
    expect(listed.stdout.trim()).toBe(String(pid))
  })
})

describe('its socket', () => {
  const socketOf = (dataDirectory: string) => join(dataDirectory, 'gateway', 'gateway.sock')

  /** A connection to the socket, and its received data at its end. */
  async function connectRaw(dataDirectory: string): Promise<{ socket: Socket; received: Promise<string> }> {
    const socket = connect(socketOf(dataDirectory))
    scope.defer(() => socket.destroy())
    socket.on('error', () => {})
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk
    })
    const received = new Promise<string>((resolve) => socket.on('close', () => resolve(text)))
    await once(socket, 'connect')
    return { socket, received }
  }

  it('and its files are only for its user', async () => {
    const { dataDirectory } = await startOne(scope)
    const folder = join(dataDirectory, 'gateway')
    const modeOf = async (path: string) => ((await lstat(path)).mode & 0o777).toString(8)
    expect(await modeOf(folder)).toBe('700')
    for (const name of ['gateway.sock', 'gateway.json', 'gateway.log'])
      expect(await modeOf(join(folder, name))).toBe('600')
    if (!isRoot) return
    const open = `require('node:net').connect(process.argv[1]).on('error', (error) => console.log(error.code))`
    const other = await promisify(execFile)(process.execPath, ['-e', open, socketOf(dataDirectory)], {
      uid: 40123,
      cwd: '/',
    })
    expect(other.stdout.trim()).toBe('EACCES')
  })

  it.each([
    ['no JSON', 'x\n'],
    ['no object', '1\n'],
    ['a call before its greeting', '{"type":"hello","epoch":1}\n{"type":"request","id":1,"name":"adopt"}\n'],
    [
      'an upstream without endpoints',
      '{"type":"hello","epoch":1}\n{"type":"request","id":1,"name":"route","parameters":{"appId":"app","upstream":{"deploymentId":"d","endpoints":[]}}}\n',
    ],
    ['an endless line', 'x'.repeat(17 * 1024 * 1024)],
    ['no epoch', '{"type":"hello","epoch":"9"}\n'],
  ])('closes a connection that says %s, and nothing else', async (_, bytes) => {
    const { dataDirectory, gateway, port, process } = await startOne(scope)
    gateway.leave()
    const { socket, received } = await connectRaw(dataDirectory)
    socket.write(bytes)
    await received
    expect((await ask(port)).body).toBe('hi')
    expect(await running(dataDirectory)).toEqual(process)
    const next = await connectTo(scope, dataDirectory, { epoch: 2 })
    expect(next.current('app')).not.toBeNull()
  })

  it('answers requests for its status, and lets the server lead', async () => {
    const { dataDirectory, gateway, app, port, process } = await startOne(scope)
    const { socket, received } = await connectRaw(dataDirectory)
    socket.end('{"type":"status"}\n')
    expect(JSON.parse(await received)).toMatchObject({
      type: 'welcome',
      pid: process.pid,
      options: { version: '1.0.0' },
      apps: [{ appId: 'app', address: { port }, upstream: app.upstream }],
    })
    expect(await gateway.route('app', null)).toEqual(app.upstream)
  })
})

it('distinguishes apps by host name, from its start on', async () => {
  const dataDirectory = await makeDataDirectory(scope)
  const port = await freePort()
  const apps = { mode: 'hostnames', port, scheme: 'https' } as const
  const gateway = await connectTo(scope, dataDirectory, { apps })
  const squatter = createServer().listen(port, HOST)
  await once(squatter, 'listening')
  await expect(gateway.listen()).rejects.toMatchObject({ code: 'EADDRINUSE' })
  squatter.close()
  await once(squatter, 'close')
  await gateway.listen()
  expect((await ask(port)).status).toBe(404)
  const app = await startApp(scope, (req, res) => res.end(`${req.headers.host} ${req.headers['x-forwarded-proto']}`))
  await gateway.open('app', { hostname: 'a.example' })
  await gateway.route('app', app.upstream)
  const headers = { host: 'a.example' }
  expect((await ask(port, { headers })).body).toBe('a.example https')
  process.kill((await running(dataDirectory)).pid, 'SIGKILL')
  await expect
    .poll(() =>
      ask(port, { headers }).then(
        ({ body }) => body,
        () => null,
      ),
    )
    .toBe('a.example https')
})

it('needs at most 70 MB of memory', async () => {
  const dataDirectory = await makeDataDirectory(scope)
  const gateway = await connectGateway({
    dataDirectory,
    options: defaults,
    runAs: null,
    epoch: 1,
    retireMs: 0,
    log: silent,
  })
  scope.defer(() => gateway.leave())
  await gateway.open('app', { port: await freePort() })
  const { pid } = await running(dataDirectory)
  const [, resident] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? []
  expect(Number(resident) * 1024).toBeLessThan(70_000_000)
})

it('reports an endpoint that refuses connections', async () => {
  const { gateway, app, port } = await startOne(scope)
  const refused = new Promise((resolve) => gateway.onRefused(resolve))
  await app.stop()
  expect((await ask(port)).status).toBe(502)
  const { deploymentId, endpoints } = app.upstream
  expect(await refused).toEqual({ appId: 'app', deploymentId, endpoint: endpoints[0] })
})
