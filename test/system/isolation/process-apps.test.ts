import { readFileSync } from 'node:fs'
import { link, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { usableControllers } from '../../../server/src/platform/cgroups.ts'
import type { Command } from '../../../server/src/platform/command.ts'
import { closeGroups, detectCapabilities } from '../../../server/src/runtimes/process/confinement/capabilities.ts'
import { readHierarchy } from '../../../server/src/runtimes/process/confinement/groups.ts'
import type { UidRange } from '../../../server/src/runtimes/process/users.ts'
import type { Handle, Observation } from '../../../server/src/runtimes/runtime.ts'
import { addressOf } from '../../harness/addresses.ts'
import { silentLogger } from '../../harness/platform/fixtures/silent-logger.ts'
import { type Bench, createBench, identities, untilState } from '../../harness/runtimes/support.ts'

const hierarchy = await readHierarchy('top')
const usable = hierarchy === null ? [] : await usableControllers(hierarchy)

let bench: Bench
beforeAll(async () => {
  bench = await createBench()
})
afterAll(() => bench.dispose())

/** The commands of the fixtures, as their build plans have them. */
const nodeServer: Command = {
  argv: ['node', 'server.js'],
  env: { npm_lifecycle_event: 'start', npm_package_name: 'node-server', npm_package_version: '1.2.3' },
}
const npmBuild: readonly Command[] = [{ argv: ['npm', 'ci', '--include=dev'] }, { argv: ['npm', 'run', 'build'] }]
const procfileServer: Command = {
  argv: ['/bin/sh', '-c', 'echo "port $PORT" && exec node server.js --greeting "hello there"'],
}

const urlOf = (seen: Extract<Observation, { state: 'listening' }>) => {
  const { host, port } = addressOf(seen)
  return `http://${host === '::1' ? '[::1]' : host}:${port}/`
}
const portOf = (handle: Handle) => Number(handle.data['port'])
const exited = (code: number | null, signal: string | null = null) => ({
  state: 'exited',
  code,
  signal,
  exceeded: null,
})

/** Returns the uid of an app: the owner of its home. Ignores ids of apps that currently run in another test. */
async function uidOf(release: Parameters<Bench['pathsOf']>[0], uids: UidRange | null): Promise<number | undefined> {
  if (uids === null) return process.getuid?.()
  const { uid } = await stat(bench.pathsOf(release).home)
  expect(uid >= uids.from && uid <= uids.to).toBe(true)
  return uid
}

describe.each(identities)('as $name', ({ uids }) => {
  test('starts an app that sees its own variables and nothing of the server', async () => {
    vi.stubEnv('SERVER_SECRET', 'do not tell')
    const runtime = bench.newRuntime({ uids })
    const variables = { GREETING: 'hi', PORT: '1', HOME: '/root' }
    const release = await bench.release(runtime, 'node-server', variables)
    const uid = await uidOf(release, uids)
    const paths = bench.pathsOf(release)
    const handle = await bench.start(runtime, release, nodeServer)
    const listening = await untilState(runtime, handle, 'listening')

    const answer = await fetch(urlOf(listening))
    const seen = (await answer.json()) as { env: Record<string, string>; uid: number; groups: number[]; cwd: string }
    expect(seen.env).toEqual({
      GREETING: 'hi',
      PORT: String(portOf(handle)),
      FAIRLEAD_DEPLOYMENT_ID: release.id,
      FAIRLEAD_INSTANCE_MARK: expect.stringMatching(`^${release.id}\\.[\\w-]{43}$`),
      FAIRLEAD_PROCESS_MARK: expect.stringMatching(`^${release.id}\\.[\\w-]{43}$`),
      HOME: paths.home,
      TMPDIR: paths.temporary,
      PATH: expect.stringMatching(/^.*\/bin:.*:\/usr\/local\/bin:\/usr\/bin:\/bin:.*\/source\/bin$/),
      LANG: 'C.UTF-8',
      NODE_ENV: 'production',
      NODE_OPTIONS: '--max-old-space-size=325',
      npm_lifecycle_event: 'start',
      npm_package_name: 'node-server',
      npm_package_version: '1.2.3',
    })
    expect(seen.cwd).toBe(paths.source)
    expect(seen.uid).toBe(uid)
    if (uids !== null) expect(seen.groups).toEqual([uid])
    for (const folder of [paths.home, paths.temporary]) {
      const { mode, uid } = await stat(folder)
      expect({ mode: mode & 0o777, uid }).toEqual({ mode: 0o700, uid: seen.uid })
    }

    await runtime.instances.stop(handle, { graceMs: 20_000 })
    expect(await runtime.instances.observe(handle)).toEqual(exited(0))
    expect(await bench.lines(release, 'runtime')).toEqual(['ready', 'goodbye'])
    const log = await stat(join(paths.logs, 'runtime.log'))
    expect({ mode: log.mode & 0o777, uid: log.uid }).toEqual({ mode: 0o600, uid })
    vi.unstubAllEnvs()
  })

  test('lays out releases as later servers expect them', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'node-server')
    const app = join(bench.directory, 'apps', release.appId)
    expect(bench.pathsOf(release)).toMatchObject({
      directory: join(app, 'releases', release.id),
      source: join(app, 'releases', release.id, 'source'),
      home: join(app, 'home'),
      temporary: join(app, 'tmp'),
      cache: join(app, 'cache'),
    })
    expect((await stat(join(app, 'releases', release.id))).mode & 0o777).toBe(0o711)
    const source = await stat(join(app, 'releases', release.id, 'source'))
    const uid = await uidOf(release, uids)
    expect({ mode: source.mode & 0o777, uid: source.uid }).toEqual({ mode: 0o700, uid })
  })

  test('builds with npm, the development dependencies and the operator’s variables, then runs the built app', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'npm-build', { PORT: '1' })
    expect(await bench.build(runtime, release, npmBuild)).toEqual({ ok: true })
    const log = await bench.lines(release, 'build')
    expect(log).toContain('$ npm ci --include=dev')
    expect(log).toContain('$ npm run build')
    expect(log).toContain('page written')

    const handle = await bench.start(runtime, release, ['node', '--enable-source-maps', 'server.js'])
    const page = await (await fetch(urlOf(await untilState(runtime, handle, 'listening')))).text()
    expect(page).toBe(`built on Node ${process.versions.node} with a mirror, PORT undefined\n`)
    await runtime.instances.stop(handle, { graceMs: 0 })
  })

  test('runs the web line of a Procfile in a shell', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'procfile-server')
    const handle = await bench.start(runtime, release, procfileServer)
    const listening = await untilState(runtime, handle, 'listening')
    expect(listening).toEqual({ state: 'listening', endpoints: [{ host: '::1', port: portOf(handle) }] })
    expect(await (await fetch(urlOf(listening))).text()).toBe('hello there')
    expect(await bench.lines(release, 'runtime', 1)).toEqual([`port ${portOf(handle)}`])
    await runtime.instances.stop(handle, { graceMs: 0 })
    expect(await bench.processesOf(release)).toEqual([])
  })

  test('a build that fails says which command failed, and the rest does not run', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'unruly')
    const outcome = await bench.build(runtime, release, [
      ['node', 'app.js', 'exits'],
      ['node', '-v'],
    ])
    expect(outcome).toEqual({ ok: false, command: 'node app.js exits', code: 7, signal: null, exceeded: null })
    const lines = (await bench.lines(release, 'build')).filter((line) => !line.startsWith('warning: '))
    expect(lines).toEqual(['$ node app.js exits'])
  })

  test('a build that leaves a daemon behind leaves nothing', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'unruly')
    expect(await bench.build(runtime, release, [['node', 'app.js', 'leaves-daemon']])).toEqual({ ok: true })
    expect(await bench.processesOf(release)).toEqual([])
  })

  test('an aborted build rejects with the reason and leaves nothing', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'unruly')
    const abort = new AbortController()
    const building = bench.build(runtime, release, [['node', 'app.js', 'hangs']], abort.signal)
    const outcome = building.catch((error: unknown) => error)
    await vi.waitFor(async () => expect(await bench.lines(release, 'build')).toContain('hanging'), 30_000)
    const reason = new Error('canceled by the user')
    abort.abort(reason)
    expect(await outcome).toBe(reason)
    expect(await bench.processesOf(release)).toEqual([])
  })

  test('kills an app that ignores SIGTERM after the grace period', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'stubborn'])
    await untilState(runtime, handle, 'listening')
    // Enough time for its response to the signal to be in the log.
    await runtime.instances.stop(handle, { graceMs: 2_000 })
    expect(await runtime.instances.observe(handle)).toEqual(exited(null, 'SIGKILL'))
    expect(await bench.lines(release, 'runtime')).toEqual(['no'])
  })

  test('finds a double-forked daemon that listens for the app, and ends it with the app', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'daemon'])
    await untilState(runtime, handle, 'listening')
    await vi.waitFor(async () => expect((await bench.processesOf(release)).length).toBe(2), 30_000)
    await runtime.instances.stop(handle, { graceMs: 100 })
    expect(await bench.processesOf(release)).toEqual([])
    expect((await runtime.instances.observe(handle)).state).toBe('exited')
  })

  test('a later server observes and stops an instance that it knows only from its handle', async () => {
    const first = bench.newRuntime({ uids })
    const release = await bench.release(first, 'node-server')
    const started = await bench.start(first, release, nodeServer)
    await untilState(first, started, 'listening')

    const { instances } = bench.newRuntime({ uids })
    const stored = JSON.parse(JSON.stringify(started)) as Handle
    const endpoints = [{ host: '127.0.0.1', port: portOf(started) }]
    expect(await instances.observe(stored)).toEqual({ state: 'listening', endpoints })
    await instances.stop(stored, { graceMs: 20_000 })
    expect(await instances.observe(stored)).toEqual(exited(null))
    expect(await bench.lines(release, 'runtime', 1)).toEqual(['goodbye'])
    await instances.stop(stored, { graceMs: 0 })
  })

  test('removes a release with all of its processes, twice', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'daemon'])
    await untilState(runtime, handle, 'listening')
    await runtime.releases.remove(release)
    expect(await bench.processesOf(release)).toEqual([])
    await expect(stat(bench.pathsOf(release).directory)).rejects.toMatchObject({ code: 'ENOENT' })
    await runtime.releases.remove(release)
  })

  test('an attached command runs as the app, and leaves only the app’s processes', async () => {
    const runtime = bench.newRuntime({ uids })
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'silent'])
    const before = await bench.processesOf(release)
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
    const script = `console.log(process.getuid(), process.env.HOME)
require('node:child_process').spawn(process.execPath, ['app.js', 'leaves-daemon'], { detached: true, stdio: 'ignore' }).unref()`
    const exit = await runtime.instances.attach(release, handle, {
      argv: ['node', '-e', script],
      tty: null,
      ...{ stdin, stdout, stderr },
      signal: new AbortController().signal,
    })
    expect(exit).toEqual({ code: 0, signal: null, exceeded: null })
    const uid = await uidOf(release, uids)
    expect(String(stdout.read())).toBe(`${uid} ${bench.pathsOf(release).home}\n`)
    expect(await bench.processesOf(release)).toEqual(before)
    await runtime.instances.stop(handle, { graceMs: 0 })
  })
})

test.runIf(process.getuid?.() === 0)('no app runs as a uid beyond the range', async () => {
  const runtime = bench.newRuntime({ uids: { from: 41_000, to: 41_000, reserved: [41_000] } })
  const wide = bench.newRuntime({ uids: { from: 41_000, to: 49_999 } })
  const release = await bench.release(wide, 'node-server')
  await expect(bench.start(runtime, release, ['node', '-v'])).rejects.toThrow('widen FAIRLEAD_UIDS')
})

describe('an app', () => {
  test('that exits has its exit code in its state', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'exits'])
    expect(await untilState(runtime, handle, 'exited')).toEqual(exited(7))
  })

  test('that listens on another port has the wrong port', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'elsewhere'])
    const port = portOf(handle)
    const seen = { state: 'wrong_port', port, ports: [port + 1], servable: null }
    expect(await untilState(runtime, handle, 'wrong_port')).toEqual(seen)
    await runtime.instances.stop(handle, { graceMs: 0 })
  })

  test('that never listens stays in the starting state, even when a stranger takes its port', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'silent'])
    const stranger = createServer()
    await new Promise<void>((resolve) => stranger.listen(portOf(handle), '127.0.0.1', resolve))
    expect(await runtime.instances.observe(handle)).toEqual({ state: 'starting', port: portOf(handle) })
    stranger.close()
    await runtime.instances.stop(handle, { graceMs: 0 })
  })

  test('whose command is missing counts as exited, with a line in the log', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly')
    const handle = await bench.start(runtime, release, ['no-such-command'])
    expect(await runtime.instances.observe(handle)).toEqual(exited(127))
    expect(await bench.newRuntime().instances.observe(handle)).toEqual(exited(null))
    expect(await bench.lines(release, 'runtime')).toEqual(['no-such-command: command not found'])
    await runtime.instances.stop(handle, { graceMs: 0 })
  })

  test.each([
    ['is not executable', 0o644, '#!/bin/sh\n', 126, 'permission denied'],
    ['lacks its interpreter', 0o755, '#!/no/such/shell\n', 126, 'interpreter'],
  ])('a build command that %s fails the build with a clear line', async (_, mode, text, code, line) => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly')
    await writeFile(join(bench.pathsOf(release).source, 'step'), text, { mode })
    const outcome = await bench.build(runtime, release, [['./step']])
    expect(outcome).toEqual({ ok: false, command: './step', code, signal: null, exceeded: null })
    expect((await bench.lines(release, 'build')).at(-1)).toContain(line)
  })

  test('with an impossible variable fails to start with a clear line', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly', { BROKEN: 'a\0b' })
    const handle = await bench.start(runtime, release, ['node', 'app.js', 'silent'])
    expect((await runtime.instances.observe(handle)).state).toBe('exited')
    expect((await bench.lines(release, 'runtime', 1))[0]).toContain('node: cannot be run')
  })

  test('gets a unique port, while both are still starting', async () => {
    const runtime = bench.newRuntime()
    const releases = await Promise.all(Array.from({ length: 5 }, () => bench.release(runtime, 'unruly')))
    const handles = await Promise.all(releases.map((each) => bench.start(runtime, each, ['node', 'app.js', 'silent'])))
    expect(new Set(handles.map(portOf)).size).toBe(5)
    await Promise.all(handles.map((handle) => runtime.instances.stop(handle, { graceMs: 0 })))
  })
})

describe('memory beyond the limit', () => {
  const hog = ['node', '-e', 'const kept = []; setInterval(() => kept.push(Buffer.alloc(16e6, 1)), 20)'] as const
  const small = { memoryBytes: 128_000_000, cpus: 1, diskBytes: 8e9 }

  test('ends a build, and the end reports the limit', async () => {
    const runtime = bench.newRuntime()
    const release = { ...(await bench.release(runtime, 'unruly')), limits: small }
    const exceeded = { code: 'out_of_memory', allowed: 256_000_000, used: expect.any(Number) }
    expect(await bench.build(runtime, release, [hog])).toMatchObject({ ok: false, signal: 'SIGKILL', exceeded })
  })

  test('ends an app, even one that an earlier server has started', async () => {
    const runtime = bench.newRuntime()
    const release = { ...(await bench.release(runtime, 'unruly')), limits: small }
    const exceeded = { code: 'out_of_memory', allowed: 128_000_000 }
    const handle = await bench.start(runtime, release, hog)
    expect(await untilState(runtime, handle, 'exited')).toMatchObject({ signal: 'SIGKILL', exceeded })

    const later = bench.newRuntime()
    const wide = { ...release, limits: { ...small, memoryBytes: 1e12 } }
    const unwatched = await bench.start(runtime, wide, hog)
    await using output = await bench.logs.open({ appId: release.appId, deploymentId: release.id, stream: 'runtime' })
    await later.instances.adopt(release, unwatched, output)
    expect(await untilState(later, unwatched, 'exited')).toMatchObject({ exceeded: { code: 'out_of_memory' } })
  })
})

test.skipIf(!usable.includes('pids'))('processes beyond the limit end a build, and all of them end', async () => {
  const host = await detectCapabilities({
    cgroups: 'top',
    path: process.env['PATH'] ?? '',
    directory: bench.directory,
    isRoot: process.getuid?.() === 0,
    programs: bench.programs,
    network: null,
    leavesCore: () => false,
    logger: silentLogger,
  })
  const { uids } = identities[0] ?? { uids: null }
  const runtime = bench.newRuntime({ uids, host })
  const release = await bench.release(runtime, 'unruly')
  const bomb = `const { spawn } = require('node:child_process')
const grow = () => { for (let n = 0; n < 4; n++) spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore', env: {} }).on('error', () => process.exit(3)).unref() }
setInterval(grow, 1)`
  const exceeded = { code: 'too_many_processes', allowed: 512 }
  expect(await bench.build(runtime, release, [['node', '-e', bomb]])).toMatchObject({ ok: false, code: 3, exceeded })
  expect(await host.builds?.processesOf(`${release.id}.build`)).toEqual([])

  // An app's group counts the processes of the app and of a command beside it, even with a cleared environment.
  const handle = await bench.start(runtime, release, ['node', 'app.js', 'silent'])
  const [stdin, stdout, stderr] = [new PassThrough().end(), new PassThrough(), new PassThrough()]
  const argv = ['/bin/sh', '-c', 'env -i /bin/sleep 600 & sleep 600'] as const
  const signal = new AbortController().signal
  const attached = runtime.instances.attach(release, handle, { argv, tty: null, stdin, stdout, stderr, signal })
  // A sandbox adds two processes around each of the two commands.
  const processes = host.sandbox === null ? 4 : 8
  await vi.waitFor(async () => expect((await runtime.instances.usage(handle)).processes).toBe(processes), 10_000)
  await runtime.releases.remove(release)
  expect((await attached).code).not.toBe(0)
  for (const groups of [host.cgroups, host.builds]) expect(await groups?.names()).toEqual([])
  await closeGroups(host)
})

describe('foreign processes and files', () => {
  test('a process that has taken over the pid counts as exited and is not touched', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'node-server')
    const other = await bench.start(runtime, release, nodeServer)
    await untilState(runtime, other, 'listening')
    const stale = {
      ...other,
      data: { ...other.data, releaseId: 'dep_long_gone', unit: 'dep_long_gone', startTime: '1' },
    }
    expect(await runtime.instances.observe(stale)).toEqual(exited(null))
    await runtime.instances.stop(stale, { graceMs: 0 })
    // The same start time, before a power failure.
    const before = {
      ...other,
      data: { ...other.data, releaseId: 'dep_long_gone', unit: 'dep_long_gone', boot: 'an earlier start' },
    }
    expect(await runtime.instances.observe(before)).toEqual(exited(null))
    await runtime.instances.stop(before, { graceMs: 0 })
    expect((await runtime.instances.observe(other)).state).toBe('listening')
    await runtime.instances.stop(other, { graceMs: 0 })
  })

  test('a handle of another runtime is refused', async () => {
    const { instances } = bench.newRuntime()
    await expect(instances.observe({ runtime: 'docker', data: { id: '1' } })).rejects.toThrow('runtime docker')
  })

  test('a link in place of a log is neither written nor read', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly')
    const ours = join(bench.directory, 'ours.txt')
    await writeFile(ours, 'ours\n')
    const { logs } = bench.pathsOf(release)
    await mkdir(logs, { recursive: true })
    await symlink(ours, join(logs, 'runtime.log'))
    await expect(bench.start(runtime, release, ['node', 'app.js', 'silent'])).rejects.toThrow()
    expect(await bench.lines(release, 'runtime')).toEqual([])
    await link(ours, join(logs, 'build.log'))
    await expect(bench.build(runtime, release, [['node', '-v']])).rejects.toThrow('not a plain file')
    expect(readFileSync(ours, 'utf8')).toBe('ours\n')
  })

  test('a link in place of a folder for the app is refused', async () => {
    const runtime = bench.newRuntime()
    const release = await bench.release(runtime, 'unruly')
    await symlink(bench.directory, bench.pathsOf(release).home)
    await expect(bench.start(runtime, release, ['node', 'app.js', 'silent'])).rejects.toThrow('is not a folder')
  })

  test('removing a release deletes its links, but not their targets', async () => {
    const runtime = bench.newRuntime()
    const [kept, removed] = [await bench.release(runtime, 'node-server'), await bench.release(runtime, 'node-server')]
    await symlink(bench.pathsOf(kept).directory, join(bench.pathsOf(removed).source, 'link'))
    await runtime.releases.remove(removed)
    // A link in place of the release's folder.
    const alias = { id: 'dep_alias', appId: removed.appId }
    const { directory } = bench.pathsOf(alias)
    await mkdir(dirname(directory), { recursive: true })
    await symlink(bench.pathsOf(kept).directory, directory)
    await runtime.releases.remove(alias)
    expect(await readFile(join(bench.pathsOf(kept).source, 'package.json'), 'utf8')).toContain('node-server')
    await expect(stat(directory)).rejects.toMatchObject({ code: 'ENOENT' })
  })
})
