import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readlink, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseStat } from '../../server/src/platform/processes.ts'
import { createPorts } from '../../server/src/runtimes/process/launch/ports.ts'
import { observationOf } from '../../server/src/runtimes/process/observe.ts'
import { commandEnvironment } from '../../server/src/runtimes/process/release/environment.ts'
import { appCacheFolders, pathsOf } from '../../server/src/runtimes/process/release/layout.ts'
import { fromHandle, toHandle } from '../../server/src/runtimes/process/release/local-instance.ts'
import { prepareBin } from '../../server/src/runtimes/process/toolchain/prepare-bin.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'fairlead-runtime-parts-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

describe('the environment', () => {
  const release = {
    id: 'dep_1',
    paths: pathsOf('/apps', { id: 'dep_1', appId: 'a' }),
    variables: {},
  }
  const command = { argv: ['node'], env: { FROM: 'plan', PLAN: '1' } } as const

  test('lets the app’s variables win over the plan’s, and those over the operator’s', () => {
    const scope = { kind: 'build', operator: { FROM: 'operator', PLAN: '0', REGISTRY: 'r' } } as const
    const variables = { FROM: 'app', NODE_ENV: 'staging' }
    const built = commandEnvironment({ ...release, variables }, command, scope, '/bin-of-ours')
    expect(built).toMatchObject({ FROM: 'app', PLAN: '1', REGISTRY: 'r', NODE_ENV: 'staging' })
    expect(built).not.toHaveProperty('PORT')
  })

  test('keeps the reserved names, whatever the app says', () => {
    const variables = { PORT: '1', PATH: '/evil', HOME: '/root', TMPDIR: '/', FAIRLEAD_DEPLOYMENT_ID: 'dep_2' }
    const built = commandEnvironment({ ...release, variables }, command, { kind: 'app', port: 4000 }, '/bin-of-ours')
    const source = '/apps/a/releases/dep_1/source'
    expect(built).toMatchObject({
      PORT: '4000',
      PATH: `/bin-of-ours:${source}/node_modules/.bin:${source}/.venv/bin:/usr/local/bin:/usr/bin:/bin`,
      HOME: '/apps/a/home',
      TMPDIR: '/apps/a/tmp',
      FAIRLEAD_DEPLOYMENT_ID: 'dep_1',
    })
  })
})

describe('the observation by sockets', () => {
  const socket = (port: number, address: string) => ({ port, address })
  const at = (host: string) => ({ state: 'listening', endpoints: [{ host, port: 4000 }] })
  test.each([
    [[], { state: 'starting', port: 4000 }],
    [[socket(4000, '127.0.0.1')], at('127.0.0.1')],
    [[socket(4000, '0.0.0.0')], at('127.0.0.1')],
    [[socket(4000, '::')], at('127.0.0.1')],
    [[socket(4000, '::ffff:127.0.0.1')], at('127.0.0.1')],
    [[socket(4000, '::1')], at('::1')],
    [[socket(4000, '::1'), socket(4000, '127.0.0.1')], at('127.0.0.1')],
    [[socket(9229, '127.0.0.1'), socket(4000, '::')], at('127.0.0.1')],
    [[socket(9229, '127.0.0.1'), socket(80, '::'), socket(80, '0.0.0.0')], { state: 'wrong_port', ports: [80, 9229] }],
    [[socket(4000, '10.0.0.7')], { state: 'wrong_port', ports: [4000] }],
  ])('%j is %j', (sockets, state) => {
    expect(observationOf(4000, sockets)).toEqual(state)
  })
})

describe('ports', () => {
  test('are never those that something listens on, and none is left when all are given away', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '::', resolve))
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    await expect(createPorts({ from: port, to: port }).reserve()).rejects.toThrow('no free port')
    await new Promise((resolve) => server.close(resolve))

    const ports = createPorts({ from: port, to: port })
    expect(await ports.reserve()).toBe(port)
    await expect(ports.reserve()).rejects.toThrow('no free port')
    ports.release(port)
    expect(await ports.reserve()).toBe(port)
  })
})

test('a handle is read back as it was written, and without a memory limit as older servers wrote it', () => {
  const instance = { releaseId: 'dep_1', pid: 7, startTime: '123', port: 4000, memoryBytes: 5 }
  expect(fromHandle(toHandle(instance))).toEqual(instance)
  const { memoryBytes: _, ...old } = instance
  expect(fromHandle({ runtime: 'process', data: old })).toEqual(old)
})

test('the CPU time of a process is its own and that of its children, in its user and in the kernel', () => {
  const stat = '12 (a) b (c) S 1 12 12 0 -1 4194560 1 2 3 4 150 50 25 75 20 0 1 0 99'
  expect(parseStat(stat)?.cpuTicks).toBe(300)
})

test('the caches of apps lie in their folders', async () => {
  const apps = join(directory, 'apps')
  expect(await appCacheFolders(apps)).toEqual([])
  await mkdir(join(apps, 'app_1'), { recursive: true })
  expect(await appCacheFolders(apps)).toEqual([join(apps, 'app_1', 'cache')])
})

test('prepareBin provides node and the package managers, also from paths that a shell would misread, and again', async () => {
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
    staticServer: join(home, 'static.js'),
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
