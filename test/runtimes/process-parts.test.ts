import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readlink, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeFolder } from '../../server/src/platform/disk/folders.ts'
import { sizeOf } from '../../server/src/platform/disk/tree-size.ts'
import { commandEnvironment } from '../../server/src/runtimes/process/environment.ts'
import { stateOf } from '../../server/src/runtimes/process/inspect.ts'
import { createPorts } from '../../server/src/runtimes/process/ports.ts'
import { prepareBin } from '../../server/src/runtimes/process/toolchain.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'fairlead-runner-parts-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

describe('the environment', () => {
  const release = {
    id: 'dep_1',
    directory: '/apps/a/r',
    logDirectory: '/logs/dep_1',
    appDirectory: '/apps/a',
    user: null,
    limits: { memoryBytes: 512_000_000, cpus: 1 },
    variables: {},
  }
  const command = { argv: ['node'], env: { FROM: 'plan', PLAN: '1' } } as const

  test('lets the app’s variables win over the plan’s, and those over the operator’s', () => {
    const built = commandEnvironment({ ...release, variables: { FROM: 'app', NODE_ENV: 'staging' } }, command, {
      bin: '/bin-of-ours',
      operator: { FROM: 'operator', PLAN: '0', REGISTRY: 'r' },
    })
    expect(built).toMatchObject({ FROM: 'app', PLAN: '1', REGISTRY: 'r', NODE_ENV: 'staging' })
    expect(built).not.toHaveProperty('PORT')
  })

  test('keeps the reserved names, whatever the app says', () => {
    const variables = { PORT: '1', PATH: '/evil', HOME: '/root', TMPDIR: '/', FAIRLEAD_DEPLOYMENT_ID: 'dep_2' }
    const built = commandEnvironment({ ...release, variables }, command, { bin: '/bin-of-ours', port: 4000 })
    expect(built).toMatchObject({
      PORT: '4000',
      PATH: '/bin-of-ours:/apps/a/r/source/node_modules/.bin:/apps/a/r/source/.venv/bin:/usr/local/bin:/usr/bin:/bin',
      HOME: '/apps/a/home',
      TMPDIR: '/apps/a/tmp',
      FAIRLEAD_DEPLOYMENT_ID: 'dep_1',
    })
  })
})

describe('the state of sockets', () => {
  const socket = (port: number, address: string) => ({ port, address })
  test.each([
    [[], { state: 'starting' }],
    [[socket(4000, '127.0.0.1')], { state: 'listening', host: '127.0.0.1' }],
    [[socket(4000, '0.0.0.0')], { state: 'listening', host: '127.0.0.1' }],
    [[socket(4000, '::')], { state: 'listening', host: '127.0.0.1' }],
    [[socket(4000, '::ffff:127.0.0.1')], { state: 'listening', host: '127.0.0.1' }],
    [[socket(4000, '::1')], { state: 'listening', host: '::1' }],
    [[socket(4000, '::1'), socket(4000, '127.0.0.1')], { state: 'listening', host: '127.0.0.1' }],
    [[socket(9229, '127.0.0.1'), socket(4000, '::')], { state: 'listening', host: '127.0.0.1' }],
    [[socket(9229, '127.0.0.1'), socket(80, '::'), socket(80, '0.0.0.0')], { state: 'elsewhere', ports: [80, 9229] }],
    [[socket(4000, '10.0.0.7')], { state: 'elsewhere', ports: [4000] }],
  ])('%j is %j', (sockets, state) => {
    expect(stateOf(4000, sockets)).toEqual(state)
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

test('removeFolder deletes what a build has taken its own rights to', async () => {
  const folder = join(directory, 'closed')
  await mkdir(join(folder, 'source', 'a', 'b'), { recursive: true })
  await writeFile(join(folder, 'source', 'a', 'b', 'file'), '')
  await chmod(join(folder, 'source', 'a', 'b'), 0o500)
  await chmod(join(folder, 'source', 'a'), 0o000)
  await removeFolder(folder)
  expect(await readdir(directory)).not.toContain('closed')
})

test('a tree deeper than a path may be long is measured and deleted', async () => {
  const folder = join(directory, 'deep')
  await mkdir(folder)
  const dig = `const { mkdirSync, writeFileSync } = require('node:fs')
for (let n = 0; n < 60; n += 1) { mkdirSync('x'.repeat(100)); process.chdir('x'.repeat(100)) }
writeFileSync('file', '')`
  await promisify(execFile)(process.execPath, ['-e', dig], { cwd: folder })
  // Of 61 folders and a file none is free.
  const bytes = await sizeOf([folder])
  expect([bytes >= 62 * 1_024, Number.isFinite(bytes)]).toEqual([true, true])
  await removeFolder(folder)
  expect(await readdir(directory)).not.toContain('deep')
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
