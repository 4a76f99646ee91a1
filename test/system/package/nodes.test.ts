import { execFile, spawnSync } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { skipped } from '../../harness/ordinary-user.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { root } from './installation.ts'

/*
 * Any Node of a machine sets up a checkout; everything in the checkout then runs on the Node that the setup installs.
 * Each version comes from the package registry, without npm.
 */

const run = promisify(execFile)
const registry = spawnSync('npm', ['view', 'npm@10', 'version', '--json'], { encoding: 'utf8', timeout: 60_000 })
const isAway = registry.status !== 0
if (isAway) skipped('minor versions of Node', 'the package registry does not answer')

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  directory = await temporaryDirectory()
})
afterAll(() => directory[Symbol.asyncDispose]())

/** Downloads files of a package, and returns their folder. */
async function unpacked(name: string, ...members: readonly string[]): Promise<string> {
  const folder = join(directory.path, name)
  await mkdir(folder)
  await run('npm', ['pack', '--silent', '--pack-destination', folder, name], { cwd: directory.path })
  const archive = (await readdir(folder)).find((file) => file.endsWith('.tgz')) ?? ''
  await run('tar', ['-xzf', archive, '--strip-components=1', ...members], { cwd: folder })
  return folder
}

const nodeOf = async (version: string): Promise<string> =>
  join(await unpacked(`node-linux-${process.arch}@${version}`, 'package/bin/node'), 'bin', 'node')

/** Sets up a checkout with the packages that depend on the version of Node, and returns its folder. */
async function setUp(node: string, npm: string): Promise<string> {
  const { devDependencies, allowScripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const checkout = await mkdtemp(join(directory.path, 'checkout-'))
  const packages = { node: devDependencies.node, rolldown: devDependencies.rolldown }
  await writeFile(
    join(checkout, 'package.json'),
    JSON.stringify({ type: 'module', allowScripts, devDependencies: packages }),
  )
  await cp(join(root, 'scripts/run.js'), join(checkout, 'scripts/run.js'))
  await writeFile(join(checkout, 'scripts/build.ts'), '')
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
  const env = { ...process.env, PATH: `${dirname(node)}:${process.env['PATH']}` }
  await run(node, [join(npm, 'bin/npm-cli.js'), 'install', ...flags], { cwd: checkout, env })
  return checkout
}

describe.skipIf(isAway)('a checkout that is set up by Node', () => {
  let npm: string
  beforeAll(async () => {
    npm = await unpacked('npm@10')
  })

  it.each([
    ['18.20', false],
    ['20.18', false],
    ['20.19', true],
    ['22.11', false],
    ['22.12', true],
  ])('%s has all build tools: %s, and otherwise says what to do', async (version, isWhole) => {
    const node = await nodeOf(version)
    expect((await run(node, ['--version'])).stdout).toMatch(`v${version}.`)
    const checkout = await setUp(node, npm)
    const check = (program: string) =>
      spawnSync(program, ['scripts/run.js', 'build'], { cwd: checkout, encoding: 'utf8' })
    // npm scripts find the checkout's Node first.
    const { status, stdout, stderr } = check(join(checkout, 'node_modules/.bin/node'))
    expect({ status, stdout }).toEqual({ status: isWhole ? 0 : 1, stdout: '' })
    if (!isWhole)
      expect(stderr).toMatch(/^npm ci has left out a part .*\n.*\n {2}npx --yes -p node@24 -p npm@11 npm ci\n$/)
    const bundler = ['--input-type=module', '--eval', "await import('rolldown')"]
    const loaded = spawnSync(join(checkout, 'node_modules/.bin/node'), bundler, { cwd: checkout, encoding: 'utf8' })
    expect(loaded.status === 0).toBe(isWhole)
    // The machine's Node runs them where install scripts are not allowed.
    const own = check(node)
    expect({ status: own.status, stdout: own.stdout }).toEqual({ status: 1, stdout: '' })
    expect(own.stderr).toMatch(/^Fairlead is built with Node 24, .* this is v[\d.]+\.\n.*\n {2}npx --yes -p node@24 /)
  })
})
