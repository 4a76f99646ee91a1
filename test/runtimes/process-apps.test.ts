import { readFileSync } from 'node:fs'
import { link, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { planFor } from '../../server/src/builds/plan-directory.ts'
import type { Instance, Plan, Release } from '../../server/src/runtimes/runtime.ts'
import { type Bench, createBench, identities, plan, untilState } from './runner-support.ts'

const noAbort = () => ({ signal: new AbortController().signal })

const planOf = (release: Release): Promise<Plan> =>
  planFor(join(release.directory, 'source'), { nodeVersion: process.versions.node })

let bench: Bench
beforeAll(async () => {
  bench = await createBench()
})
afterAll(() => bench.dispose())

describe.each(identities)('as $name', ({ user }) => {
  test('starts an app that sees its own variables and nothing of the server', async () => {
    vi.stubEnv('SERVER_SECRET', 'do not tell')
    const runner = bench.newRunner()
    const release = await bench.release('node-server', {
      user,
      variables: { GREETING: 'hi', PORT: '1', HOME: '/root' },
    })
    const instance = await runner.start(release, await planOf(release))
    const { host } = await untilState(runner, instance, 'listening')

    const answer = await fetch(`http://${host}:${instance.port}/`)
    const seen = (await answer.json()) as { env: Record<string, string>; uid: number; groups: number[]; cwd: string }
    expect(seen.env).toEqual({
      GREETING: 'hi',
      PORT: String(instance.port),
      FAIRLEAD_DEPLOYMENT_ID: release.id,
      HOME: join(release.appDirectory, 'home'),
      TMPDIR: join(release.appDirectory, 'tmp'),
      PATH: expect.stringMatching(/^.*\/bin:.*:\/usr\/local\/bin:\/usr\/bin:\/bin$/),
      LANG: 'C.UTF-8',
      NODE_ENV: 'production',
      npm_lifecycle_event: 'start',
      npm_package_name: 'node-server',
      npm_package_version: '1.2.3',
    })
    expect(seen.cwd).toBe(join(release.directory, 'source'))
    expect(seen.uid).toBe(user?.uid ?? process.getuid?.())
    if (user !== null) expect(seen.groups).toEqual([user.gid])
    for (const folder of ['home', 'tmp']) {
      const { mode, uid } = await stat(join(release.appDirectory, folder))
      expect({ mode: mode & 0o777, uid }).toEqual({ mode: 0o700, uid: seen.uid })
    }

    await runner.stop(instance, { graceMs: 20_000 })
    expect(await runner.inspect(instance)).toEqual({ state: 'exited', code: 0, signal: null, exceeded: null })
    expect(await runner.logs(release, 'runtime', { lines: 10 })).toEqual(['ready', 'goodbye'])
    expect((await stat(join(release.logDirectory, 'runtime.log'))).mode & 0o777).toBe(0o600)
    vi.unstubAllEnvs()
  })

  test('builds with npm, the development dependencies and the operator’s variables, then runs what was built', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('npm-build', { user, variables: { PORT: '1' } })
    const planned = await planOf(release)
    expect(await runner.build(release, planned, noAbort())).toEqual({ ok: true })
    const log = await runner.logs(release, 'build', { lines: 100 })
    expect(log).toContain('$ npm ci --include=dev')
    expect(log).toContain('$ npm run build')
    expect(log).toContain('page written')

    const instance = await runner.start(release, planned)
    const { host } = await untilState(runner, instance, 'listening')
    const page = await (await fetch(`http://${host}:${instance.port}/`)).text()
    expect(page).toBe(`built on Node ${process.versions.node} with a mirror, PORT undefined\n`)
    await runner.stop(instance, { graceMs: 0 })
  })

  test('runs the web line of a Procfile in a shell', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('procfile-server', { user })
    const instance = await runner.start(release, await planOf(release))
    expect(await untilState(runner, instance, 'listening')).toEqual({ state: 'listening', host: '::1' })
    expect(await (await fetch(`http://[::1]:${instance.port}/`)).text()).toBe('hello there')
    expect(await runner.logs(release, 'runtime', { lines: 1 })).toEqual([`port ${instance.port}`])
    await runner.stop(instance, { graceMs: 0 })
    expect(await bench.processesOf(release)).toEqual([])
  })

  test('a build that fails says which command failed, and the rest does not run', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly', { user })
    const outcome = await runner.build(
      release,
      plan(
        ['node'],
        [
          ['node', 'app.js', 'exits'],
          ['node', '-v'],
        ],
      ),
      noAbort(),
    )
    expect(outcome).toEqual({ ok: false, command: 'node app.js exits', code: 7, signal: null, exceeded: null })
    expect(await runner.logs(release, 'build', { lines: 100 })).toEqual(['$ node app.js exits'])
  })

  test('a build that leaves a daemon behind leaves nothing', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly', { user })
    const outcome = await runner.build(release, plan(['node'], [['node', 'app.js', 'leaves-daemon']]), noAbort())
    expect(outcome).toEqual({ ok: true })
    expect(await bench.processesOf(release)).toEqual([])
  })

  test('an aborted build rejects with the reason and leaves nothing', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly', { user })
    const abort = new AbortController()
    const building = runner.build(release, plan(['node'], [['node', 'app.js', 'hangs']]), { signal: abort.signal })
    const outcome = building.catch((error: unknown) => error)
    await vi.waitFor(async () => expect(await runner.logs(release, 'build', { lines: 9 })).toContain('hanging'), 30_000)
    const reason = new Error('canceled by the user')
    abort.abort(reason)
    expect(await outcome).toBe(reason)
    expect(await bench.processesOf(release)).toEqual([])
  })

  test('ends an app that ignores SIGTERM once the grace is over', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly', { user })
    const instance = await runner.start(release, plan(['node', 'app.js', 'stubborn']))
    await untilState(runner, instance, 'listening')
    // Enough for its answer to the signal to be in the log.
    await runner.stop(instance, { graceMs: 2_000 })
    expect(await runner.inspect(instance)).toEqual({ state: 'exited', code: null, signal: 'SIGKILL', exceeded: null })
    expect(await runner.logs(release, 'runtime', { lines: 9 })).toEqual(['no'])
  })

  test('finds a double-forked daemon that listens for the app, and ends it with the app', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly', { user })
    const instance = await runner.start(release, plan(['node', 'app.js', 'daemon']))
    await untilState(runner, instance, 'listening')
    await vi.waitFor(async () => expect((await bench.processesOf(release)).length).toBe(2), 30_000)
    await runner.stop(instance, { graceMs: 100 })
    expect(await bench.processesOf(release)).toEqual([])
    expect((await runner.inspect(instance)).state).toBe('exited')
  })

  test('a later server inspects and stops an instance that it has only read about', async () => {
    const release = await bench.release('node-server', { user })
    const first = bench.newRunner()
    const started = await first.start(release, await planOf(release))
    await untilState(first, started, 'listening')

    const second = bench.newRunner()
    const adopted = JSON.parse(JSON.stringify(started)) as Instance
    expect(await second.inspect(adopted)).toEqual({ state: 'listening', host: '127.0.0.1' })
    await second.stop(adopted, { graceMs: 20_000 })
    expect(await second.inspect(adopted)).toEqual({ state: 'exited', code: null, signal: null, exceeded: null })
    expect(await second.logs(release, 'runtime', { lines: 1 })).toEqual(['goodbye'])
    await second.stop(adopted, { graceMs: 0 })
  })

  test('removes a release with all that runs of it, twice', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly', { user })
    const instance = await runner.start(release, plan(['node', 'app.js', 'daemon']))
    await untilState(runner, instance, 'listening')
    await runner.remove(release)
    expect(await bench.processesOf(release)).toEqual([])
    await expect(stat(release.directory)).rejects.toMatchObject({ code: 'ENOENT' })
    await runner.remove(release)
    expect(await runner.logs(release, 'runtime', { lines: 1 })).toEqual([])
  })
})

describe('an app', () => {
  test('that exits is noticed with its code', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly')
    const instance = await runner.start(release, plan(['node', 'app.js', 'exits']))
    expect(await untilState(runner, instance, 'exited')).toEqual({
      state: 'exited',
      code: 7,
      signal: null,
      exceeded: null,
    })
  })

  test('that listens on another port is found elsewhere', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly')
    const instance = await runner.start(release, plan(['node', 'app.js', 'elsewhere']))
    expect(await untilState(runner, instance, 'elsewhere')).toEqual({ state: 'elsewhere', ports: [instance.port + 1] })
    await runner.stop(instance, { graceMs: 0 })
  })

  test('that never listens goes on starting, even when a stranger takes its port', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly')
    const instance = await runner.start(release, plan(['node', 'app.js', 'silent']))
    const stranger = createServer()
    await new Promise<void>((resolve) => stranger.listen(instance.port, '127.0.0.1', resolve))
    expect(await runner.inspect(instance)).toEqual({ state: 'starting' })
    stranger.close()
    await runner.stop(instance, { graceMs: 0 })
  })

  test('whose command is missing counts as exited, with a line in the log', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly')
    const instance = await runner.start(release, plan(['no-such-command']))
    expect(await runner.inspect(instance)).toEqual({ state: 'exited', code: 127, signal: null, exceeded: null })
    expect(await bench.newRunner().inspect(instance)).toEqual({
      state: 'exited',
      code: null,
      signal: null,
      exceeded: null,
    })
    expect(await runner.logs(release, 'runtime', { lines: 9 })).toEqual(['no-such-command: command not found'])
    await runner.stop(instance, { graceMs: 0 })
  })

  test.each([
    ['is not executable', 0o644, '#!/bin/sh\n', 126, 'permission denied'],
    ['lacks its interpreter', 0o755, '#!/no/such/shell\n', 126, 'interpreter'],
  ])('a build command that %s fails the build with a clear line', async (_, mode, text, code, line) => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly')
    await writeFile(join(release.directory, 'source', 'step'), text, { mode })
    const outcome = await runner.build(release, plan(['node'], [['./step']]), noAbort())
    expect(outcome).toEqual({ ok: false, command: './step', code, signal: null, exceeded: null })
    expect((await runner.logs(release, 'build', { lines: 9 })).at(-1)).toContain(line)
  })

  test('with a variable that no process can have fails to start with a clear line', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly', { variables: { BROKEN: 'a\0b' } })
    const instance = await runner.start(release, plan(['node', 'app.js', 'silent']))
    expect((await runner.inspect(instance)).state).toBe('exited')
    expect((await runner.logs(release, 'runtime', { lines: 1 }))[0]).toContain('node: cannot be run')
  })

  test('gets a port that no other has, while both are still starting', async () => {
    const runner = bench.newRunner()
    const releases = await Promise.all(Array.from({ length: 5 }, () => bench.release('unruly')))
    const instances = await Promise.all(releases.map((each) => runner.start(each, plan(['node', 'app.js', 'silent']))))
    expect(new Set(instances.map(({ port }) => port)).size).toBe(5)
    await Promise.all(instances.map((instance) => runner.stop(instance, { graceMs: 0 })))
  })
})

describe('what is not the release’s', () => {
  test('a process that has taken over the pid counts as exited and is left alone', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('node-server')
    const other = await runner.start(release, await planOf(release))
    await untilState(runner, other, 'listening')
    const stale = { ...other, releaseId: 'dep_long_gone', startTime: '1' }
    expect(await runner.inspect(stale)).toEqual({ state: 'exited', code: null, signal: null, exceeded: null })
    await runner.stop(stale, { graceMs: 0 })
    expect((await runner.inspect(other)).state).toBe('listening')
    await runner.stop(other, { graceMs: 0 })
  })

  test('a link in place of a log is neither written nor read', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly')
    const ours = join(bench.directory, 'ours.txt')
    await writeFile(ours, 'ours\n')
    await mkdir(release.logDirectory, { recursive: true })
    await symlink(ours, join(release.logDirectory, 'runtime.log'))
    await expect(runner.start(release, plan(['node', 'app.js', 'silent']))).rejects.toThrow()
    expect(await runner.logs(release, 'runtime', { lines: 9 })).toEqual([])
    await link(ours, join(release.logDirectory, 'build.log'))
    await expect(runner.build(release, plan(['node'], [['node', '-v']]), noAbort())).rejects.toThrow('not a plain file')
    expect(readFileSync(ours, 'utf8')).toBe('ours\n')
  })

  test('a link in place of a folder for the app is refused', async () => {
    const runner = bench.newRunner()
    const release = await bench.release('unruly')
    await symlink(bench.directory, join(release.appDirectory, 'home'))
    await expect(runner.start(release, plan(['node', 'app.js', 'silent']))).rejects.toThrow('is not a folder')
  })

  test('removing a release deletes links in it and not what they point to', async () => {
    const runner = bench.newRunner()
    const [kept, removed] = [await bench.release('node-server'), await bench.release('node-server')]
    await symlink(kept.directory, join(removed.directory, 'source', 'link'))
    await runner.remove(removed)
    const alias = { id: removed.id, directory: join(bench.directory, 'alias') }
    await symlink(kept.directory, alias.directory)
    await runner.remove(alias)
    expect(await readFile(join(kept.directory, 'source', 'package.json'), 'utf8')).toContain('node-server')
    await expect(stat(alias.directory)).rejects.toMatchObject({ code: 'ENOENT' })
  })
})
