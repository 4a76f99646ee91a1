import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readStat } from '../../../server/src/platform/processes.ts'
import { archiveOf } from '../../../server/src/runtimes/docker/archive.ts'
import { type Container, createContainers, createWaiters } from '../../../server/src/runtimes/docker/calls.ts'
import type { DockerRuntime } from '../../../server/src/runtimes/docker/docker-runtime.ts'
import { EngineError } from '../../../server/src/runtimes/docker/errors.ts'
import { commandLabel, imageOf, serverLabel, waiterLabel } from '../../../server/src/runtimes/docker/names.ts'
import { addLayer } from '../../../server/src/runtimes/docker/pack.ts'
import type { Handle, Release } from '../../../server/src/runtimes/runtime.ts'
import { addressOf } from '../../harness/addresses.ts'
import { baseImage, changeImage, noDocker } from '../../harness/docker.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { createDockerBench, type DockerBench } from '../../harness/runtimes/docker/support.ts'

const why = await noDocker()
if (why !== null) skipped('kills of containers, of their engine and of servers', why)

/** True for a process that exists and has not ended. */
const lives = (pid: number): boolean => readStat(pid)?.ended === false

/** Prints this many numbers at a changing pace to both outputs; then it waits. */
const counter = `let next = 0
const most = Number(process.argv[1])
const print = () => {
  for (let count = 0; count < 40 && next < most; count += 1) {
    next += 1
    if (next % 2) console.log('line ' + next); else console.error('line ' + next)
  }
  if (next < most) setTimeout(print, next % 3 * 10)
}
print()
setInterval(() => {}, 60_000)`

/** Starts processes up to the limit, and fails some time later. */
const forks = `const { spawn } = require('node:child_process')
const fork = () => {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  child.on('error', () => setTimeout(() => process.exit(1), 2000))
  child.on('spawn', fork)
}
fork()`

describe.skipIf(why !== null).each([{ liveRestore: true }, { liveRestore: false }])('with %j', ({ liveRestore }) => {
  let bench: DockerBench
  let docker: DockerRuntime
  beforeAll(async () => {
    bench = await createDockerBench({ liveRestore })
    docker = bench.newRuntime()
  }, 120_000)
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000)

  const newRelease = async (): Promise<Release> => {
    const release: Release = {
      id: `dep_${randomUUID()}`,
      appId: `app_${randomUUID()}`,
      appNumber: 1,
      projectId: 'proj_one',
      internalName: null,
      limits: { memoryBytes: 256_000_000, cpus: 1, diskBytes: 8e9 },
      variables: {},
    }
    await bench.makeImage(release)
    return release
  }

  const start = async (...argv: [string, ...string[]]) => {
    const release = await newRelease()
    const log = join(bench.dockerd.directory, `${release.id}.log`)
    await using output = await open(log, 'a')
    const handle = await docker.runtime.instances.start(release, { argv }, output)
    return { release, handle, log, container: String(handle.data['container']) }
  }

  const state = async (handle: Handle) => (await docker.runtime.instances.observe(handle)).state
  const until = (handle: Handle, expected: string) =>
    vi.waitFor(async () => expect(await state(handle)).toBe(expected), { timeout: 30_000, interval: 50 })
  const linesOf = async (log: string) => (await readFile(log, 'utf8')).trimEnd().split('\n').length

  if (liveRestore) {
    it('servers that are killed in turn write every line of an app once, each of its outputs in order', async () => {
      const most = 20_000
      const { release, handle, log, container } = await start('node', '-e', counter, String(most))
      await docker.close()
      docker = bench.newRuntime()
      const script = fileURLToPath(new URL('follower.ts', import.meta.url))
      const { engine, directory } = bench.dockerd
      const args = [script, engine.socket, bench.server, join(directory, 'outputs'), container, log]
      for (let kill = 0; kill < 12; kill += 1) {
        const follower: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
        if (follower.stdout === null) throw new Error('no output')
        await once(follower.stdout, 'data')
        await sleep(randomInt(1, 60))
        follower.kill('SIGKILL')
        await once(follower, 'exit')
      }
      await using output = await open(log, 'a')
      await docker.runtime.instances.adopt(release, handle, output)
      await vi.waitFor(async () => expect(await linesOf(log)).toBeGreaterThanOrEqual(most), 30_000)
      const printed = (await readFile(log, 'utf8')).trimEnd().split('\n')
      for (const rest of [1, 0]) {
        const expected = Array.from({ length: most / 2 }, (_, index) => `line ${2 * index + (rest === 1 ? 1 : 2)}`)
        expect(printed.filter((line) => Number(line.slice(5)) % 2 === rest)).toEqual(expected)
      }
      expect(printed.length).toBe(most)
      await docker.runtime.releases.remove(release)
    }, 120_000)

    it('a container that turns unhealthy without a listening server is ended by the next server, with a line that says why', async () => {
      const release = { ...(await newRelease()), internalName: 'shop' }
      const check = 'HEALTHCHECK --interval=5s --timeout=5s --retries=1 CMD ["cat", "/none"]'
      await changeImage(bench.dockerd.engine, imageOf(bench.server, release), [check])
      await docker.close()
      docker = bench.newRuntime()
      const log = join(bench.dockerd.directory, `${release.id}.log`)
      await using output = await open(log, 'a')
      const handle = await docker.runtime.instances.start(release, { argv: ['node', 'app.js', 'listens'] }, output)
      await docker.close()
      const path = ['containers', String(handle.data['container']), 'json']
      const inspect = () => bench.dockerd.engine.call<Container>({ method: 'GET', path })
      await vi.waitFor(async () => expect((await inspect()).State.Health?.Status).toBe('unhealthy'), 60_000)
      docker = bench.newRuntime()
      await docker.runtime.instances.adopt(release, handle, output)
      const onExit = vi.fn()
      docker.runtime.instances.watch(handle, onExit)
      await vi.waitFor(() => expect(onExit).toHaveBeenCalledOnce(), 30_000)
      expect(await readFile(log, 'utf8')).toContain('the HEALTHCHECK of its image fails')
      await docker.runtime.releases.remove(release)
    }, 120_000)

    it('only a container that its engine has lost is ended', async () => {
      const [lost, other] = [await start('node', 'app.js', 'listens'), await start('node', 'app.js', 'listens')]
      for (const { handle } of [lost, other]) await until(handle, 'listening')
      const pidOf = async ({ container }: typeof lost) => {
        const path = ['containers', container, 'json']
        return (await bench.dockerd.engine.call<Container>({ method: 'GET', path })).State.Pid
      }
      const [pid, otherPid] = [await pidOf(lost), await pidOf(other)]
      await bench.dockerd.kill('SIGKILL')
      // The same happens when the engine is killed before it records the container as running.
      await rm(join(bench.dockerd.directory, 'data', 'containers', lost.container), { recursive: true })
      await bench.dockerd.start()
      await docker.clean()
      expect(lives(pid)).toBe(true)
      await docker.clean()
      await vi.waitFor(() => expect(lives(pid)).toBe(false), 30_000)
      expect(lives(otherPid)).toBe(true)
      expect(await state(other.handle)).toBe('listening')
      for (const { release } of [lost, other]) await docker.runtime.releases.remove(release)
    }, 120_000)

    it('another server’s container, with a separate engine, does not count as lost', async () => {
      await using others = await createDockerBench({ liveRestore })
      const release = await newRelease()
      await others.makeImage(release)
      await using output = await open(join(others.dockerd.directory, 'output'), 'a', 0o600)
      const { instances } = others.newRuntime().runtime
      const handle = await instances.start(release, { argv: ['node', 'app.js', 'listens'] }, output)
      await vi.waitFor(async () => expect((await instances.observe(handle)).state).toBe('listening'), 30_000)
      for (let times = 0; times < 2; times += 1) await docker.clean()
      expect((await instances.observe(handle)).state).toBe('listening')
      await instances.stop(handle, { graceMs: 0 })
    }, 120_000)

    it('a command whose engine is killed fails, and does not continue when the engine is back', async () => {
      const { release, handle } = await start('node', 'app.js', 'listens')
      await until(handle, 'listening')
      const commands = async () => {
        const filters = { label: ['app.fairlead.command'] }
        const query = { all: true, filters }
        const listed = await bench.dockerd.engine.call<{ Id: string; Labels: Record<string, string> }[]>({
          method: 'GET',
          path: ['containers', 'json'],
          query,
        })
        return listed.filter(({ Labels }) => Labels['app.fairlead.command'] !== '')
      }
      const output = () => new PassThrough().resume()
      const run = docker.runtime.instances.attach(release, handle, {
        argv: ['sleep', '3600'],
        tty: null,
        stdin: new PassThrough(),
        stdout: output(),
        stderr: output(),
        signal: new AbortController().signal,
      })
      const failed = expect(run).rejects.toThrow('the Docker engine')
      await vi.waitFor(async () => expect((await commands()).length).toBe(1), 30_000)
      await sleep(500)
      await bench.dockerd.kill('SIGKILL')
      await failed
      await bench.dockerd.start()
      await docker.clean()
      expect(await commands()).toEqual([])
      expect(await state(handle)).toBe('listening')
      await docker.runtime.releases.remove(release)
    }, 120_000)

    it('a container survives a kill and restart of its engine, does not count as ended, and its output continues', async () => {
      const { release, handle, log } = await start('node', 'app.js', 'listens')
      await until(handle, 'listening')
      const onExit = vi.fn()
      docker.runtime.instances.watch(handle, onExit)
      const { host, port } = addressOf((await docker.runtime.instances.observe(handle)) as never)
      const before = bench.dockerd.kill('SIGKILL')
      await before
      const seen = state(handle)
      expect((await fetch(`http://${host}:${port}/`)).status).toBe(200)
      await bench.dockerd.start()
      expect(await seen).toBe('listening')
      expect(onExit).not.toHaveBeenCalled()
      await docker.runtime.instances.stop(handle, { graceMs: 20_000 })
      expect(await readFile(log, 'utf8')).toBe('ready\ngoodbye\n')
      await vi.waitFor(() => expect(onExit).toHaveBeenCalledOnce(), 10_000)
      await docker.runtime.releases.remove(release)
    }, 120_000)
  } else {
    it('containers that end with their engine are seen as ended when the engine is back, and restarted', async () => {
      const { release, handle, log } = await start('node', 'app.js', 'listens')
      await until(handle, 'listening')
      await vi.waitFor(async () => expect(await readFile(log, 'utf8')).toBe('ready\n'), 10_000)
      const onExit = vi.fn()
      docker.runtime.instances.watch(handle, onExit)
      await bench.dockerd.kill('SIGTERM')
      expect(onExit).not.toHaveBeenCalled()
      await bench.dockerd.start()
      await vi.waitFor(() => expect(onExit).toHaveBeenCalledOnce(), 30_000)
      expect(await state(handle)).toBe('exited')
      await using output = await open(log, 'a')
      const again = await docker.runtime.instances.start(release, { argv: ['node', 'app.js', 'listens'] }, output)
      await until(again, 'listening')
      await vi.waitFor(async () => expect(await readFile(log, 'utf8')).toBe('ready\ngoodbye\nready\n'), 10_000)
      await docker.runtime.releases.remove(release)
    }, 120_000)

    it('containers that end without a server have their last lines in the log when they are restarted', async () => {
      const { release, handle, log, container } = await start('node', 'app.js', 'listens')
      await until(handle, 'listening')
      await vi.waitFor(async () => expect(await readFile(log, 'utf8')).toBe('ready\n'), 10_000)
      await docker.close()
      docker = bench.newRuntime()
      const { engine } = bench.dockerd
      await engine.call({ method: 'POST', path: ['containers', container, 'kill'], query: { signal: 'SIGTERM' } })
      await until(handle, 'exited')
      await docker.runtime.instances.stop(handle, { graceMs: 0 })
      await using output = await open(log, 'a')
      const again = await docker.runtime.instances.start(release, { argv: ['node', 'app.js', 'listens'] }, output)
      await until(again, 'listening')
      await vi.waitFor(async () => expect(await readFile(log, 'utf8')).toBe('ready\ngoodbye\nready\n'), 10_000)
      await docker.runtime.releases.remove(release)
    }, 60_000)

    it('a container that reaches its memory or process limit is observed with that limit', async () => {
      const hog = await start(
        'node',
        '-e',
        'const all = []; setInterval(() => all.push(Buffer.alloc(20_000_000, 1)), 10)',
      )
      await until(hog.handle, 'exited')
      expect(await docker.runtime.instances.observe(hog.handle)).toMatchObject({
        exceeded: { code: 'out_of_memory', allowed: 256_000_000 },
      })
      await docker.runtime.releases.remove(hog.release)
      const forking = await start('node', '-e', forks)
      await until(forking.handle, 'exited')
      expect(await docker.runtime.instances.observe(forking.handle)).toMatchObject({
        code: 1,
        exceeded: { code: 'too_many_processes', allowed: 512 },
      })
      await docker.runtime.releases.remove(forking.release)
    }, 60_000)

    it('an image’s forged labels of the server are ignored', async () => {
      const release = await newRelease()
      const labels = {
        command: 'none',
        instance: 'none',
        app: 'app_other',
        release: 'dep_other',
        project: 'proj_other',
      }
      const changes = Object.entries(labels).map(([name, value]) => `LABEL app.fairlead.${name}=${value}`)
      await changeImage(bench.dockerd.engine, imageOf(bench.server, release), changes)
      await using output = await open(join(bench.dockerd.directory, `${release.id}.log`), 'a')
      const handle = await docker.runtime.instances.start(release, { argv: ['node', 'app.js', 'listens'] }, output)
      await docker.clean()
      await docker.runtime.releases.remove({ id: 'dep_other', appId: 'app_other' })
      await until(handle, 'listening')
      await docker.runtime.releases.remove(release)
      expect(await state(handle)).toBe('exited')
    }, 60_000)

    it('a container that held the files of an image is removed when its engine was unavailable at its end, and the image has no owner', async () => {
      const { engine } = bench.dockerd
      const away = new EngineError('DELETE containers', null, 'ECONNREFUSED')
      const call: typeof engine.call = (asked) =>
        asked.method === 'DELETE' ? Promise.reject(away) : engine.call(asked)
      const fence = () => undefined
      const containers = createContainers(engine, bench.server, fence)
      const name = 'fairlead-test/layer:latest'
      const adding = addLayer(
        { engine: { ...engine, call }, waiters: createWaiters(containers), fence },
        {
          ...{ from: baseImage, name, settings: { Labels: { [serverLabel]: bench.server } } },
          files: archiveOf({ parts: [{ folder: '/', paths: ['etc/passwd'] }], reader: null, mostBytes: 1_000_000 }),
        },
        new AbortController().signal,
      )
      await expect(adding).rejects.toThrow('cannot be reached')
      expect((await containers.list({})).length).toBe(1)
      await docker.clean()
      expect(await containers.list({})).toEqual([])
      expect((await containers.image(name))?.Config?.Labels).toEqual({
        [serverLabel]: bench.server,
        [commandLabel]: '',
        [waiterLabel]: '',
      })
    }, 60_000)

    it('the next server removes a killed server’s commands, and records of missing containers', async () => {
      const { release, handle, container } = await start('node', 'app.js', 'listens')
      await until(handle, 'listening')
      const body = {
        Image: 'fairlead-test/base:latest',
        Cmd: ['sleep', '60'],
        Labels: { 'app.fairlead.server': bench.server, 'app.fairlead.command': container },
        HostConfig: { NetworkMode: 'none' },
      }
      const { engine, directory } = bench.dockerd
      const left = await engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body })
      const record = join(directory, 'outputs', 'f'.repeat(64))
      await using _ = await open(record, 'w')
      await docker.clean()
      const listed = await engine.call<{ Id: string }[]>({
        method: 'GET',
        path: ['containers', 'json'],
        query: { all: true },
      })
      expect(listed.map(({ Id }) => Id)).toEqual([container])
      expect(listed.map(({ Id }) => Id)).not.toContain(left.Id)
      await expect(readFile(record)).rejects.toMatchObject({ code: 'ENOENT' })
      expect(await state(handle)).toBe('listening')
      await docker.runtime.releases.remove(release)
      await rm(record, { force: true })
    }, 60_000)
  }
})
