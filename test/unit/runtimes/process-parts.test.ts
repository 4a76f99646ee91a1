import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readlink, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findProcesses, parseStat } from '../../../server/src/platform/processes.ts'
import { commandEnvironment } from '../../../server/src/runtimes/environment.ts'
import { originsOfCopy } from '../../../server/src/runtimes/process/builder.ts'
import { fromHandle, toHandle } from '../../../server/src/runtimes/process/handle.ts'
import { startPasta } from '../../../server/src/runtimes/process/network/pasta-networks.ts'
import { createPorts } from '../../../server/src/runtimes/process/network/ports.ts'
import { observationOf } from '../../../server/src/runtimes/process/observe.ts'
import { appCacheFolders, pathsOf } from '../../../server/src/runtimes/process/release-folders.ts'
import { prepareBin } from '../../../server/src/runtimes/process/toolchain/own-programs.ts'
import { freePort } from '../../harness/ports.ts'
import { prefix } from '../../harness/temporary.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), prefix))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

describe('the environment', () => {
  const release = {
    id: 'dep_1',
    paths: pathsOf('/apps', { id: 'dep_1', appId: 'a' }),
    variables: {},
  }
  const command = { argv: ['node'], env: { FROM: 'plan', PLAN: '1' } } as const
  const appPlace = { scope: { kind: 'app', port: 4000 }, bin: '/bin-of-ours', memoryBytes: 512e6 } as const

  test('prefers the app’s variables to the plan’s, and the plan’s to the operator’s', () => {
    const operator = { FROM: 'operator', PLAN: '0', REGISTRY: 'r' }
    const place = { scope: { kind: 'build', operator }, bin: '/bin-of-ours', memoryBytes: 512e6 } as const
    const variables = { FROM: 'app', NODE_ENV: 'staging' }
    const built = commandEnvironment({ ...release, variables }, command, place)
    expect(built).toMatchObject({ FROM: 'app', PLAN: '1', REGISTRY: 'r', NODE_ENV: 'staging' })
    expect(built).not.toHaveProperty('PORT')
  })

  test('limits the heap of Node to two thirds of the memory limit, unless a variable sets it', () => {
    const optionsFor = (memoryBytes: number, variables: Record<string, string> = {}) =>
      commandEnvironment({ ...release, variables }, command, { ...appPlace, memoryBytes })['NODE_OPTIONS']
    expect(optionsFor(512e6)).toBe('--max-old-space-size=325')
    expect(optionsFor(2e9)).toBe('--max-old-space-size=1271')
    expect(optionsFor(2e9, { NODE_OPTIONS: '--max-old-space-size=450' })).toBe('--max-old-space-size=450')
  })

  test('gives programs their memory limit, and builds their cache', () => {
    const settings = { JAVA: '-Xmx{memory}m', REPOSITORY: '{cache}/maven' }
    const buildPlace = { ...appPlace, scope: { kind: 'build', operator: {} }, memoryBytes: 2e9 } as const
    const built = commandEnvironment(release, { ...command, settings }, buildPlace)
    expect(built).toMatchObject({ JAVA: '-Xmx2000m', REPOSITORY: '/apps/a/cache/maven' })
    const run = commandEnvironment(release, { ...command, settings }, appPlace)
    expect(run).toMatchObject({ JAVA: '-Xmx512m' })
    expect(run).not.toHaveProperty('REPOSITORY')
  })

  test('keeps the reserved names, whatever the app sets', () => {
    const variables = { PORT: '1', PATH: '/evil', HOME: '/root', TMPDIR: '/', FAIRLEAD_DEPLOYMENT_ID: 'dep_2' }
    const built = commandEnvironment({ ...release, variables }, command, appPlace)
    const source = '/apps/a/releases/dep_1/source'
    expect(built).toMatchObject({
      PORT: '4000',
      PATH: `/bin-of-ours:${source}/node_modules/.bin:${source}/.venv/bin:/usr/local/bin:/usr/bin:/bin:${source}/bin`,
      HOME: '/apps/a/home',
      TMPDIR: '/apps/a/tmp',
      FAIRLEAD_DEPLOYMENT_ID: 'dep_1',
    })
  })
})

describe('the observation by sockets', () => {
  const socket = (port: number, address: string) => ({ port, address })
  const at = (host: string) => ({ state: 'listening', endpoints: [{ host, port: 4000 }] })
  const wrong = (ports: number[]) => ({ state: 'wrong_port', port: 4000, ports, servable: null })
  test.each([
    [[], { state: 'starting', port: 4000 }],
    [[socket(4000, '127.0.0.1')], at('127.0.0.1')],
    [[socket(4000, '0.0.0.0')], at('127.0.0.1')],
    [[socket(4000, '::')], at('127.0.0.1')],
    [[socket(4000, '::ffff:127.0.0.1')], at('127.0.0.1')],
    [[socket(4000, '::1')], at('::1')],
    [[socket(4000, '::1'), socket(4000, '127.0.0.1')], at('127.0.0.1')],
    [[socket(9229, '127.0.0.1'), socket(4000, '::')], at('127.0.0.1')],
    [[socket(70, '127.0.0.1'), socket(80, '::'), socket(80, '0.0.0.0')], wrong([70, 80])],
    [[socket(4000, '10.0.0.7')], wrong([4000])],
    [[socket(9229, '127.0.0.1')], { state: 'starting', port: 4000 }],
  ])('%j is %j', (sockets, state) => {
    expect(observationOf({ port: 4000 }, sockets)).toEqual(state)
  })

  test.each([
    ['the only port', [socket(80, '127.0.0.1'), socket(80, '::1')], 80],
    ["the only port besides a debugger's", [socket(80, '::'), socket(9229, '127.0.0.1')], 80],
    ['none of several ports', [socket(80, '::'), socket(81, '::')], null],
    ['no port that loopback does not reach', [socket(80, '10.0.0.7')], null],
  ])('of an app in a separate network allows to serve it at %s', (_, sockets, servable) => {
    expect(observationOf({ port: 4000, address: '10.1.1.2' }, sockets)).toMatchObject({ servable })
    expect(observationOf({ port: 4000, holder: { pid: 1, startTime: '1' } }, sockets)).toMatchObject({ servable })
    expect(observationOf({ port: 4000 }, sockets)).toMatchObject({ servable: null })
  })

  test('of an app that is served at another port finds the app there', () => {
    const inside = (port: number) => ({ state: 'listening', endpoints: [{ host: '10.1.1.2', port }] })
    const moved = { port: 4000, servedPort: 80 }
    expect(observationOf({ ...moved, address: '10.1.1.2' }, [socket(80, '127.0.0.1')])).toEqual(inside(80))
    // Pasta listens at this machine's port.
    const holder = { pid: 1, startTime: '1' }
    expect(observationOf({ ...moved, holder }, [socket(80, '127.0.0.1')])).toEqual(at('127.0.0.1'))
  })
})

describe('ports', () => {
  test('are never ports with a listener, and none is left when all are assigned', async () => {
    const server = createServer()
    const port = await freePort()
    await new Promise<void>((resolve) => server.listen(port, '::', resolve))
    await expect(createPorts({ from: port, to: port }).reserve()).rejects.toThrow('no free port')
    await new Promise((resolve) => server.close(resolve))

    const ports = createPorts({ from: port, to: port })
    expect(await ports.reserve()).toBe(port)
    await expect(ports.reserve()).rejects.toThrow('no free port')
    ports.release(port)
    expect(await ports.reserve()).toBe(port)
  })
})

test('a handle is read back as it was written', () => {
  const instance = { releaseId: 'dep_1', pid: 7, startTime: '123', port: 4000, memoryBytes: 5 }
  expect(fromHandle(toHandle(instance))).toEqual(instance)
})

test('the CPU time of a process includes its children, in user mode and in the kernel', () => {
  const stat = '12 (a) b (c) S 1 12 12 0 -1 4194560 1 2 3 4 150 50 25 75 20 0 1 0 99'
  expect(parseStat(stat)?.cpuTicks).toBe(300)
})

test('the caches of apps lie in their folders', async () => {
  const apps = join(directory, 'apps')
  expect(await appCacheFolders(apps)).toEqual([])
  await mkdir(join(apps, 'app_1'), { recursive: true })
  expect(await appCacheFolders(apps)).toEqual([join(apps, 'app_1', 'cache')])
})

test('prepareBin provides node and the package managers, even from paths that a shell would misread, and repeatedly', async () => {
  const home = join(directory, "it's $HOME")
  await mkdir(home)
  await writeFile(join(home, 'npm-cli.js'), 'console.log("npm", ...process.argv.slice(2))')
  await writeFile(join(home, 'npx-cli.js'), 'console.log("npx", ...process.argv.slice(2))')
  await writeFile(join(home, 'pnpm.cjs'), 'console.log("pnpm", ...process.argv.slice(2))')
  await writeFile(join(home, 'yarn.js'), 'console.log("yarn 1", ...process.argv.slice(2))')
  await writeFile(join(home, 'modern.js'), 'console.log("yarn 4", ...process.argv.slice(2))')
  const bin = join(directory, 'bin')
  const options = {
    directory: bin,
    node: process.execPath,
    npmCli: join(home, 'npm-cli.js'),
    pnpmCli: join(home, 'pnpm.cjs'),
    yarnCli: join(home, 'yarn.js'),
    modernYarnCli: join(home, 'modern.js'),
  }
  await prepareBin({ ...options, node: '/an/older/node' })
  await prepareBin(options)
  expect(await readlink(join(bin, 'node'))).toBe(process.execPath)
  const run = promisify(execFile)
  expect((await run(join(bin, 'npm'), ['a b', '$c'])).stdout).toBe('npm a b $c\n')
  expect((await run(join(bin, 'npx'), ["it's"])).stdout).toBe("npx it's\n")
  expect((await run(join(bin, 'pnpm'), ['*'])).stdout).toBe('pnpm *\n')
  expect((await run(join(bin, 'yarn'), ['a'])).stdout).toBe('yarn 1 a\n')
  expect((await run(join(bin, 'yarn'), ['a'], { env: { FAIRLEAD_YARN: 'modern' } })).stdout).toBe('yarn 4 a\n')
  await writeFile(join(home, 'npm-cli.js'), 'console.log(process.env.npm_config_cache)')
  await writeFile(join(home, 'yarn.js'), 'console.log(process.env.YARN_CACHE_FOLDER, process.env.YARN_GLOBAL_FOLDER)')
  await writeFile(join(home, 'modern.js'), 'console.log(process.env.YARN_CACHE_FOLDER, process.env.YARN_GLOBAL_FOLDER)')
  const env = { FAIRLEAD_CACHE: '/a $cache' }
  expect((await run(join(bin, 'npm'), [], { env })).stdout).toBe('/a $cache/npm\n')
  expect((await run(join(bin, 'npm'), [], { env: { ...env, npm_config_cache: '/own' } })).stdout).toBe('/own\n')
  expect((await run(join(bin, 'npm'), [], { env: {} })).stdout).toBe('undefined\n')
  expect((await run(join(bin, 'yarn'), [], { env })).stdout).toBe('/a $cache/yarn-1 undefined\n')
  const modern = { ...env, FAIRLEAD_YARN: 'modern' }
  expect((await run(join(bin, 'yarn'), [], { env: modern })).stdout).toBe('undefined /a $cache/yarn\n')
  const inside = await run(join(bin, 'fairlead-in'), [home, 'node', '-p', 'process.cwd() + process.argv[1]', '$x y'])
  expect(inside.stdout).toBe(`${await realpath(home)}$x y\n`)
})

test('a copy of copies contains the folder of the build and the newest others', () => {
  const chain = Array.from({ length: 40 }, (_, at) => `/${at}`)
  const origins = chain.reduce<readonly string[]>(originsOfCopy, [])
  expect(origins).toEqual(['/0', ...chain.slice(-15)])
  expect(originsOfCopy([], '/built')).toEqual(['/built'])
})

describe('a network of pasta', () => {
  // Without rights to /dev/net/tun, pasta ends, and its child waits for ever with its output open.
  test('is given up at once when pasta ends, and leaves nothing behind', async () => {
    const pasta = join(directory, 'pasta')
    await writeFile(pasta, '#!/bin/sh\nsleep 1000 &\necho "no tun" >&2\nexit 1\n', { mode: 0o755 })
    const other = '/bin/false'
    const started = startPasta({
      tools: { pasta, nft: other, nsenter: other, setpriv: other, sleep: other, sh: '/bin/sh' },
      subnet: { host: '198.18.0.1', inside: '198.18.0.2', cidr: '198.18.0.0/30', index: 0 },
      rules: '',
      hasIpv6: false,
      forwarded: null,
      mark: { name: 'FAIRLEAD_NETWORK', value: directory },
    })
    await expect(started).rejects.toThrow('ended with 1: no tun')
    expect(await findProcesses({ name: 'FAIRLEAD_NETWORK', value: directory })).toEqual([])
  })
})
